package troupe

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// TestEveryArity gives each StepX its parents in order.
func TestEveryArity(t *testing.T) {
	t.Parallel()
	type in = int
	w := Define("w", func(b *Builder[in]) StepRef[string] {
		n := Step0(b, "n", constant[in](1))
		s := Step0(b, "s", constant[in]("x"))
		f := Step0(b, "f", constant[in](1.5))
		y := Step0(b, "y", constant[in](true))
		l := Step0(b, "l", constant[in]([]int{1}))
		Step1(b, "1", func(_ context.Context, i in, n int) (string, error) { return fmt.Sprint(i, n), nil }, n)
		Step2(b, "2", func(_ context.Context, i in, n int, s string) (string, error) { return fmt.Sprint(i, n, s), nil }, n, s)
		Step3(b, "3", func(_ context.Context, i in, n int, s string, f float64) (string, error) {
			return fmt.Sprint(i, n, s, f), nil
		}, n, s, f)
		Step4(b, "4", func(_ context.Context, i in, n int, s string, f float64, y bool) (string, error) {
			return fmt.Sprint(i, n, s, f, y), nil
		}, n, s, f, y)
		return Step5(b, "5", func(_ context.Context, i in, n int, s string, f float64, y bool, l []int) (string, error) {
			return fmt.Sprint(i, n, s, f, y, l), nil
		}, n, s, f, y, l)
	})
	steps := functions(t, w)
	parents := []persistence.Outcome{completed("2"), completed(`"y"`), completed("2.5"), completed("true"), completed("[4]")}
	for count, want := range map[int]string{1: "9 2", 2: "9 2y", 3: "9 2y2.5", 4: "9 2y2.5 true", 5: "9 2y2.5 true [4]"} {
		step := steps[fmt.Sprint(count)]
		out, err := step.Call(t.Context(), actors.Inputs{Input: []byte("9"), Parents: parents[:count]})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", want), string(out.Payload))
		for bad := range count {
			spoiled := append([]persistence.Outcome{}, parents[:count]...)
			spoiled[bad].Output = []byte("{")
			_, err := step.Call(t.Context(), actors.Inputs{Input: []byte("9"), Parents: spoiled})
			require.ErrorContains(t, err, "decode the output", "step %d, parent %d", count, bad)
		}
	}
}

func TestStepN(t *testing.T) {
	t.Parallel()
	var other Values
	w := Define("w", func(b *Builder[int]) StepRef[string] {
		n := Step0(b, "n", constant[int](1))
		s := Step0(b, "s", constant[int, any](nil))
		return StepN(b, "join", func(needs *Needs) func(context.Context, int, Values) (string, error) {
			number, text, twice := Need(needs, n), Need(needs, Maybe(n)), Need(needs, n)
			whatever := Need(needs, s)
			return func(_ context.Context, in int, values Values) (string, error) {
				if in == 0 {
					values = other
				}
				if in == 1 {
					Need(needs, n)(values)
				}
				return fmt.Sprint(in, number(values), text(values).Or(-1), twice(values), whatever(values) == nil), nil
			}
		})
	})
	require.Equal(t, "func(context.Context, int, [int troupe.Opt[int] int interface {}]) (string, error)", w.plan.program.Definition.Steps[2].Type)
	join := functions(t, w)["join"]
	parents := []persistence.Outcome{completed("2"), ended(12), completed("3"), completed("null")}
	out, err := join.Call(t.Context(), actors.Inputs{Input: []byte("9"), Parents: parents})
	require.NoError(t, err)
	require.Equal(t, `"9 2 -1 3 true"`, string(out.Payload))

	_, err = join.Call(t.Context(), actors.Inputs{Input: []byte("9"), Parents: parents[:2]})
	require.ErrorContains(t, err, "parent 2: the task has 2 parents only")
	parents[0].Output = []byte("x")
	_, err = join.Call(t.Context(), actors.Inputs{Input: []byte("9"), Parents: parents})
	require.ErrorContains(t, err, "decode the output")
	parents[0].Output = []byte("1")
	for _, in := range []string{"0", "1"} {
		require.PanicsWithValue(t, "troupe: Need was called outside the declaration of this step: call it in the function given to StepN", func() {
			_, _ = join.Call(t.Context(), actors.Inputs{Input: []byte(in), Parents: parents})
		})
	}
}
