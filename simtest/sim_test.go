package simtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// ledger is what a step with InTx writes to.
type ledger struct{ rows int }

// booking is a workflow whose second step needs PostgreSQL.
func booking() *troupe.Workflow[string, int] {
	return troupe.Define("booking", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		length := troupe.Step0(b, "length", func(_ context.Context, in string) (int, error) { return len(in), nil })
		return troupe.Step1(b, "book", func(ctx context.Context, _ string, n int) (int, error) {
			_, err := troupe.Tx(ctx).Exec(ctx, "insert into ledger values ($1)", n)
			return n, err
		}, length, troupe.InTx(), troupe.Retry{Attempts: 20})
	})
}

func TestAStubTakesThePlaceOfAStepWithInTx(t *testing.T) {
	t.Parallel()
	body := func(s *simtest.Sim) {
		books := &ledger{}
		w := simtest.Register(s, booking())
		simtest.Stub(s, w, "book", func(ctx context.Context, call simtest.Call[string, int]) (int, error) {
			n, ok := simtest.Parent[int](call, "length")
			if !ok || call.Input != "abc" {
				return 0, troupe.Terminal(errors.New("the stub does not see what the step does"))
			}
			simtest.OnCommit(ctx, func() { books.rows++ })
			return 2 * n, nil
		})
		s.Always("booked once", func() bool { return books.rows <= 1 })
		out, err := w.Start("abc").Await()
		require.NoError(s, err)
		require.Equal(s, 6, out)
		require.Equal(s, 1, books.rows)
	}
	simtest.Run(t, simtest.Options{Seeds: 100}, body)
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 1, Most: 200}, body)
}

func TestAStubSeesTheRealFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		w := simtest.Register(s, troupe.Define("real", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			return troupe.Step0(b, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		}))
		simtest.Stub(s, w, "double", func(ctx context.Context, call simtest.Call[int, int]) (int, error) {
			n, err := call.Real(ctx)
			return n + 1, err
		})
		out, err := w.Start(20).Await()
		require.NoError(t, err)
		require.Equal(t, 41, out)
	})
}

func TestAStubOfAnotherTypeOrStepIsRefused(t *testing.T) {
	t.Parallel()
	number := func(context.Context, simtest.Call[string, bool]) (bool, error) { return true, nil }
	for step, want := range map[string]string{
		"length": `the stub of step "length" returns bool, the step int`,
		"width":  `the stub of booking/width is for no step: none has this name`,
	} {
		failure := simtest.Find(t, simtest.Options{}, func(s *simtest.Sim) {
			w := simtest.Register(s, booking())
			simtest.Stub(s, w, step, number)
			w.Start("x")
		})
		require.NotNil(t, failure)
		require.Equal(t, want, failure.Text)
	}
}

func TestAStepWithInTxNeedsAStub(t *testing.T) {
	t.Parallel()
	failure := simtest.Find(t, simtest.Options{}, func(s *simtest.Sim) {
		w := simtest.Register(s, booking())
		_, _ = w.Start("abc").Await()
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, `step "book" of workflow "booking" is declared with troupe.InTx`)
}

// said returns its name.
func said(name string) *troupe.Workflow[string, string] {
	return troupe.Define("said", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		window := troupe.Sleep(b, "hour", time.Hour)
		return troupe.Step0(b, "say", func(context.Context, string) (string, error) { return name, nil }, troupe.After(window))
	})
}

func TestDeployReplacesTheWorkflows(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 30}, func(s *simtest.Sim) {
		w := simtest.Register(s, said("old"))
		run := w.Start("")
		s.Deploy(func() { simtest.Register(s, said("new")) })
		out, err := run.Await()
		require.NoError(s, err)
		require.Equal(s, "new", out, "the step had not begun")
	})
}

func TestPodsCanBeCrashedPausedAndStopped(t *testing.T) {
	t.Parallel()
	options := simtest.Options{Seeds: 10, Faults: simtest.None(), Config: troupe.Config{StopGrace: time.Second}}
	simtest.Run(t, options, func(s *simtest.Sim) {
		began := 0
		w := simtest.Register(s, troupe.Define("slow", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			return troupe.Step0(b, "slow", func(ctx context.Context, n int) (int, error) {
				began++
				select {
				case <-time.After(time.Minute):
					return began, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
		}))
		run := w.Start(1)
		s.Advance(5 * time.Second)
		for i, hit := range []func(pod string){s.Crash, s.Stop, func(pod string) { s.Pause(pod, time.Minute) }} {
			pod := run.Status().Steps[0].Pod
			require.Contains(s, s.Pods(), pod)
			require.Equal(s, i+1, began)
			hit(pod)
			s.Advance(50 * time.Second)
		}
		out, err := run.Await()
		require.NoError(s, err)
		require.Equal(s, 4, out)
	})
}

func TestCancelEndsARun(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, said("never"))
		run := w.Start("")
		run.Cancel("changed my mind")
		_, err := run.Await()
		require.ErrorIs(s, err, troupe.ErrRunCanceled)
		require.Equal(s, "changed my mind", run.Status().CancelReason)
	})
}

func TestEventuallyMustComeTrueInTime(t *testing.T) {
	t.Parallel()
	body := func(within time.Duration) func(s *simtest.Sim) {
		return func(s *simtest.Sim) {
			w := simtest.Register(s, said("x"))
			run := w.Start("")
			s.Eventually(within, "the run ends", func() bool { return run.Status().State == troupe.StateCompleted })
		}
	}
	require.Nil(t, simtest.Find(t, simtest.Options{Seeds: 10}, body(2*time.Hour)))
	failure := simtest.Find(t, simtest.Options{Seeds: 10}, body(time.Minute))
	require.NotNil(t, failure)
	require.Equal(t, `eventually "the run ends"`, failure.Promise)
}

func TestWhatCannotEndIsReported(t *testing.T) {
	t.Parallel()
	one := func(fn func(ctx context.Context, _ int) (int, error)) *troupe.Workflow[int, int] {
		return troupe.Define("one", func(b *troupe.Builder[int]) troupe.StepRef[int] { return troupe.Step0(b, "only", fn) })
	}
	for name, x := range map[string]struct {
		body func(s *simtest.Sim)
		want string
	}{
		"a step that is deaf": {func(s *simtest.Sim) {
			w := simtest.Register(s, one(func(context.Context, int) (int, error) { select {} }))
			w.Start(1)
		}, `step "only"`},
		"a step that waits for its context": {func(s *simtest.Sim) {
			w := simtest.Register(s, one(func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }))
			w.Start(1)
		}, `one-1 is running, step "only" is running`},
		"a test that panics":        {func(*simtest.Sim) { panic("oh") }, "oh"},
		"a test that waits forever": {func(*simtest.Sim) { select {} }, "the test's function"},
		"a check that fails":        {func(s *simtest.Sim) { require.True(s, false) }, "Should be true"},
		"an unknown pod":            {func(s *simtest.Sim) { s.Crash("x") }, `there is no pod "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := simtest.Find(t, simtest.Options{Faults: simtest.None(), Patience: time.Minute}, x.body)
			require.NotNil(t, failure)
			require.Contains(t, failure.Promise+": "+failure.Text, x.want)
		})
	}
}

func TestInputsFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	var drawn []uint64
	simtest.Run(t, simtest.Options{Seeds: 3, Faults: simtest.None()}, func(s *simtest.Sim) {
		drawn = append(drawn, s.Rand().Uint64())
		s.Sometimes("the third", s.Seed() == 3)
		s.Logf("%s", strings.Repeat("x", 3))
	})
	require.Len(t, drawn, 3)
	require.NotEqual(t, drawn[0], drawn[1])
}
