package acceptance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V4: a linear workflow.

// line declares a → b → c, each of which adds its name to what it got.
func line(d *diary) *troupe.Workflow[string, string] {
	return troupe.Define("line", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		first := troupe.Step0(b, "a", func(_ context.Context, in string) (string, error) {
			d.note("a")
			return in + "→a", nil
		})
		return troupe.Step1(b, "c", passes[string](d, "c"), troupe.Step1(b, "b", passes[string](d, "b"), first))
	})
}

func TestR0StepsRunInTheOrderOfTheirDependencies(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, line(d))
		run := begin(t, handle, "in")
		require.Equal(t, []string{"a", "b", "c"}, d.all())
		require.Equal(t, "completed a=completed b=completed c=completed", states(t, run))
	})
}

func TestR18InputReachesEveryStep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type input struct {
			Name  string
			Parts []int
		}
		d := &diary{}
		_, handle := start(t, troupe.Define("input", func(b *troupe.Builder[input]) troupe.StepRef[int] {
			a := troupe.Step0(b, "a", func(_ context.Context, in input) (int, error) {
				d.note("a %v", in)
				return len(in.Parts), nil
			})
			return troupe.Step1(b, "b", func(_ context.Context, in input, n int) (int, error) {
				d.note("b %v", in)
				return n, nil
			}, a)
		}))
		n, err := handle.Run(t.Context(), input{"Ada", []int{1, 2}})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"a {Ada [1 2]}", "b {Ada [1 2]}"}, d.all())
	})
}

func TestR19OutputsFlowToTheParametersOfChildren(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, line(&diary{}))
		run := begin(t, handle, "in")
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "in→a→b→c", got)
		require.JSONEq(t, `"in→a→b"`, string(stepOf(t, run, "b").Output), "every output is kept")
	})
}

func TestR22RunWaitsForTheEnd(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, slow())
		before := time.Now()
		got, err := handle.Run(t.Context(), "in")
		require.NoError(t, err)
		require.Equal(t, "done", got)
		require.GreaterOrEqual(t, time.Since(before), time.Hour)
	})
}

func TestR22RunNoWaitReturnsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, slow())
		before := time.Now()
		run, err := handle.RunNoWait(t.Context(), "in")
		require.NoError(t, err)
		require.Zero(t, time.Since(before))
		require.False(t, run.ID().IsZero())
		synctest.Wait()
		require.Equal(t, "running slow=running", states(t, run))

		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = run.Await(late)
		require.ErrorIs(t, err, context.DeadlineExceeded, "giving up waiting does not end the run")

		again := handle.Get("", run.ID())
		got, err := again.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", got)

		_, err = engine.Status(t.Context(), "another", run.ID())
		require.ErrorIs(t, err, troupe.ErrRunNotFound)
	})
}

// slow declares one step that takes an hour, unless it is ended.
func slow() *troupe.Workflow[string, string] {
	return troupe.Define("slow", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "slow", func(ctx context.Context, _ string) (string, error) {
			select {
			case <-time.After(time.Hour):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	})
}

func TestR16RunEndsWithItsLastTask(t *testing.T) {
	virtual(t, func(t *testing.T) {
		// The output is known after "a", but the run lasts until "b" has ended.
		_, handle := start(t, troupe.Define("tail", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			a := troupe.Step0(b, "a", gives[string](&diary{}, "a", "out"))
			troupe.Step1(b, "b", func(_ context.Context, _, _ string) (bool, error) {
				time.Sleep(time.Hour)
				return true, nil
			}, a)
			return a
		}))
		run := begin(t, handle, "")
		require.Equal(t, "running a=completed b=running", states(t, run))
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "out", got)
		require.Equal(t, "completed a=completed b=completed", states(t, run))
	})
}
