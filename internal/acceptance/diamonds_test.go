package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V5: fan-out and fan-in.

// rests returns a step function that takes an hour.
func rests(d *diary, name string) func(context.Context, string, string) (string, error) {
	return func(_ context.Context, _, got string) (string, error) {
		time.Sleep(time.Hour)
		d.note("%s", name)
		return got + name, nil
	}
}

func TestR15DiamondJoinsOnceWithBothOutputs(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("diamond", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			a := troupe.Step0(b, "a", gives[string](d, "a", "a"))
			return troupe.Step2(b, "d", func(_ context.Context, _, left, right string) (string, error) {
				d.note("d")
				return left + "+" + right, nil
			}, troupe.Step1(b, "b", rests(d, "b"), a), troupe.Step1(b, "c", rests(d, "c"), a))
		}))
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "ab+ac", got)
		calls := d.all()
		slices.Sort(calls)
		require.Equal(t, []string{"a", "b", "c", "d"}, calls, "both parents ended at the same instant, the child ran once")
	})
}

func TestR24BranchesOfOneParentRunAtTheSameTime(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("wide", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			a := troupe.Step0(b, "a", gives[string](d, "a", ">"))
			return troupe.Step4(b, "f", func(_ context.Context, _, b, c, d, e string) (string, error) {
				return b + c + d + e, nil
			},
				troupe.Step1(b, "b", rests(d, "b"), a), troupe.Step1(b, "c", rests(d, "c"), a),
				troupe.Step1(b, "d", rests(d, "d"), a), troupe.Step1(b, "e", rests(d, "e"), a))
		}))
		before := time.Now()
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, ">b>c>d>e", got)
		require.Less(t, time.Since(before), 2*time.Hour, "four steps of an hour each")
	})
}

func TestR24FanOutWiderThanTheSlots(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const width = 50
		_, handle := start(t, troupe.Define("wider", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			root := troupe.Step0(b, "root", func(_ context.Context, n int) (int, error) { return n, nil })
			var leaves []troupe.StepRef[int]
			for i := range width {
				leaves = append(leaves, troupe.Step1(b, fmt.Sprintf("leaf-%d", i),
					func(_ context.Context, _, n int) (int, error) { return n + i, nil }, root))
			}
			return troupe.StepN(b, "sum", func(needs *troupe.Needs) func(context.Context, int, troupe.Values) (int, error) {
				var read []func(troupe.Values) int
				for _, leaf := range leaves {
					read = append(read, troupe.Need(needs, leaf))
				}
				return func(_ context.Context, _ int, values troupe.Values) (int, error) {
					sum := 0
					for _, value := range read {
						sum += value(values)
					}
					return sum, nil
				}
			})
		}), slots(4))
		got, err := handle.Run(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, width+width*(width-1)/2, got)
	})
}

func TestR0TwoRootsStartTogether(t *testing.T) {
	virtual(t, func(t *testing.T) {
		hour := func(context.Context, string) (int, error) {
			time.Sleep(time.Hour)
			return 1, nil
		}
		_, handle := start(t, troupe.Define("roots", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step2(b, "sum", func(_ context.Context, _ string, l, r int) (int, error) { return l + r, nil },
				troupe.Step0(b, "left", hour), troupe.Step0(b, "right", hour))
		}))
		before := time.Now()
		run := begin(t, handle, "")
		require.Equal(t, "running left=running right=running sum=pending", states(t, run))
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, got)
		require.Less(t, time.Since(before), 2*time.Hour)
	})
}
