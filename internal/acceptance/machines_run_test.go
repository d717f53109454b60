package acceptance

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// An activity without a policy has 5 attempts: a second, two, four and eight after the one before,
// give or take a tenth; up to a minute.
func TestActivitiesAreRetriedOnASchedule(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var at []time.Time
		_, handle := startMachine(t, worker(func(context.Context, int) (string, error) {
			at = append(at, time.Now())
			return "", errBusy
		}))
		run := begin(t, handle, 1)
		time.Sleep(time.Hour)
		require.Len(t, at, 5)
		varied := false
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			wait := at[i+1].Sub(at[i])
			require.InDelta(t, want, wait, float64(want)/10+float64(50*time.Millisecond), "wait %d", i+1)
			varied = varied || wait != want
		}
		require.True(t, varied, "waits vary")
		require.Equal(t, "queued started retrying queued started retrying queued started retrying queued started retrying queued started failed", trail(t, run, "job#1"))
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{": busy"}, out)
	})
	policy := statemachine.DefaultRetry()
	require.Equal(t, []any{5, time.Second, 2.0, time.Minute, 0.1}, []any{policy.Attempts, policy.First, policy.Factor, policy.Cap, policy.Jitter})
}

// The options of activities are those of steps.
func TestOptionsOfActivities(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work    func(ctx context.Context, n int) (string, error)
		options []troupe.FunctionOption
		tune    func(*troupe.Config)
		want    []string
		trail   string
	}{
		"terminal": {
			work: func(context.Context, int) (string, error) { return "", troupe.Terminal(errBusy) },
			want: []string{": busy"}, trail: "queued started failed",
		},
		"a class that is never retried": {
			work:    func(context.Context, int) (string, error) { return "", troupe.Class("declined", errBusy) },
			options: []troupe.FunctionOption{troupe.Retry{Attempts: 9, Never: []string{"declined"}}},
			want:    []string{"declined: busy"}, trail: "queued started failed",
		},
		"start to close": {
			work:    func(ctx context.Context, _ int) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) },
			options: []troupe.FunctionOption{troupe.AttemptTimeout(time.Minute), troupe.Retry{Attempts: 1}},
			want:    []string{"timed_out: the attempt's timeout of 1m0s passed"}, trail: "queued started timed_out",
		},
		"heartbeat": {
			work:    func(ctx context.Context, _ int) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) },
			options: []troupe.FunctionOption{troupe.HeartbeatTimeout(time.Minute), troupe.Retry{Attempts: 1}},
			want:    []string{"timed_out: "}, trail: "queued started timed_out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				_, handle := startMachine(t, worker(c.work, c.options...))
				run := begin(t, handle, 1)
				time.Sleep(time.Hour)
				require.NoError(t, goOn.Send(t.Context(), run, ""))
				out, err := run.Await(t.Context())
				require.NoError(t, err)
				require.Len(t, out, 1)
				require.Contains(t, out[0], c.want[0][:min(len(c.want[0]), 11)])
				require.Equal(t, c.trail, trail(t, run, "job#1"))
			})
		})
	}
}

// What waits for a slot for too long fails, and the machine hears which timeout it was.
func TestAnActivityThatWaitsForASlotForTooLong(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := startMachine(t, worker(func(_ context.Context, n int) (string, error) {
			time.Sleep(time.Hour)
			return "done", nil
		}, troupe.ScheduleToStartTimeout(time.Minute)), slots(1))
		run := begin(t, handle, 2)
		time.Sleep(2 * time.Hour)
		require.Equal(t, "queued timed_out", trail(t, run, "job#2"))
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Len(t, out, 2)
		require.Contains(t, out[1], "timed_out: ")
	})
}

// Progress is kept over attempts, and TaskInfo has the id of the activity.
func TestProgressOfAnActivity(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := startMachine(t, worker(func(ctx context.Context, n int) (string, error) {
			if at, ok := troupe.Progress[int](ctx); ok {
				return troupe.Task(ctx).Step + " went on at " + string(rune('0'+at)), nil
			}
			if err := troupe.Heartbeat(ctx, 7); err != nil {
				return "", err
			}
			return "", errBusy
		}))
		run := begin(t, handle, 1)
		time.Sleep(time.Minute)
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"job#1 went on at 7"}, out)
	})
}

// A pod that serves the queue of an activity alone executes it and no activations, and one without its
// code leaves it parked.
func TestActivitiesOfAQueue(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newMemoryCluster()
		m := worker(func(ctx context.Context, _ int) (string, error) { return "rendered", nil }, troupe.Queue("gpu"))
		plain, _ := w.pod(t, func(c *troupe.Config) { c.QueueSlots, c.PodName = map[string]int{"default": 2}, "plain" })
		handle, err := troupe.Register(plain, m)
		require.NoError(t, err)
		require.NoError(t, plain.Start(t.Context()))
		defer func() { require.NoError(t, plain.Stop(context.Background())) }()
		run := begin(t, handle, 1)
		require.Equal(t, troupe.StateWaiting, stepOf(t, run, "machine").State)
		require.Equal(t, troupe.StateQueued, stepOf(t, run, "job#1").State)
		require.Contains(t, stepOf(t, run, "job#1").Waiting, "gpu")

		gpu, _ := w.pod(t, func(c *troupe.Config) { c.QueueSlots = map[string]int{"gpu": 1}; c.PodName = "gpu" })
		_, err = troupe.Register(gpu, m)
		require.NoError(t, err)
		require.NoError(t, gpu.Start(t.Context()))
		defer func() { require.NoError(t, gpu.Stop(context.Background())) }()
		time.Sleep(2 * time.Hour)
		require.Equal(t, []any{troupe.StateCompleted, "gpu"}, []any{stepOf(t, run, "job#1").State, stepOf(t, run, "job#1").Pod})
		for event, err := range run.Events(t.Context()) {
			require.NoError(t, err)
			if event.Kind == "activated" {
				require.Equal(t, "plain", event.PodName)
			}
		}
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"rendered"}, out)
	})
}

// Children of a machine are workflows and machines, and a machine is the child of a step.
func TestChildrenOfMachines(t *testing.T) {
	virtual(t, func(t *testing.T) {
		double := troupe.Define("double", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			return troupe.Step0(b, "double", func(_ context.Context, n int) (int, error) {
				if n < 0 {
					return 0, troupe.Terminal(errBusy)
				}
				return 2 * n, nil
			})
		})
		inner := statemachine.Define("inner", func(m *statemachine.Builder[int, int, int]) {
			m.OnStart(func(a *statemachine.Activation[int, int], in int) { a.Complete(in + 1) })
		})
		outer := statemachine.Define("outer", func(m *statemachine.Builder[int, []int, []int]) {
			type acting = statemachine.Activation[[]int, []int]
			doubles, inners := statemachine.Child(m, "double", double), statemachine.Child(m, "inner", inner)
			m.OnStart(func(a *acting, in int) { doubles.Start(a, in) })
			statemachine.OnCompleted(m, doubles, func(a *acting, out int) {
				a.State = append(a.State, out)
				inners.Start(a, out)
			})
			statemachine.OnCompleted(m, inners, func(a *acting, out int) {
				a.State = append(a.State, out)
				doubles.Start(a, -1)
			})
			m.OnFailed(doubles, func(a *acting, why *troupe.StepError) {
				if why.Class == "child_failed" {
					a.Complete(a.State)
				}
			})
		})
		chain := troupe.Define("chain", func(b *troupe.Builder[int]) troupe.StepRef[[]int] {
			return troupe.Child(b, "outer", outer, troupe.Step0(b, "first", func(_ context.Context, n int) (int, error) { return n + 1, nil }))
		})
		engine, err := troupe.NewInMemory(calm())
		require.NoError(t, err)
		for _, register := range []func() error{
			func() error { _, err := troupe.Register(engine, double); return err },
			func() error { _, err := troupe.Register(engine, inner); return err },
			func() error { _, err := troupe.Register(engine, outer); return err },
		} {
			require.NoError(t, register())
		}
		handle := join(t, engine, chain)
		out, err := handle.Run(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, []int{10, 11}, out)
	})
}

// Signals that the machine does not declare are refused with the names that it has, and what it cannot
// decode is an event.
func TestSignalsOfMachines(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := startMachine(t, worker(func(context.Context, int) (string, error) { return "done", nil }))
		run := begin(t, handle, 0)
		var refused *troupe.SendError
		err := troupe.NewSignal[int]("other").Send(t.Context(), run, 1)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, troupe.UnknownSignal, refused.Code)
		require.ErrorContains(t, err, "enact")
		require.ErrorContains(t, err, "go")
		require.NoError(t, troupe.NewSignal[string]("enact").Send(t.Context(), run, "no number"))
		require.NoError(t, enact.Send(t.Context(), run, 2))
		time.Sleep(10 * time.Second) // three attempts: a codec may fail for a moment
		require.Contains(t, trail(t, run, ""), "signal_refused")
		for event, err := range engine.Events(t.Context(), "", run.ID()) {
			require.NoError(t, err)
			if event.Kind == "signal_refused" {
				require.Equal(t, "enact", event.By)
				require.Contains(t, event.Text, `decode the signal "enact" into int`)
			}
		}
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"done", "done"}, out)
		require.ErrorIs(t, goOn.Send(t.Context(), run, ""), troupe.ErrRunEnded)
	})
}

// A second cancel ends a machine that handles the first; without OnCancel the first does. One that
// has ended is not canceled.
func TestCancelsOfMachines(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := startMachine(t, worker(func(ctx context.Context, _ int) (string, error) { return "done", nil }))
		run := begin(t, handle, 1)
		require.NoError(t, run.Cancel(t.Context(), "first"))
		synctest.Wait()
		require.NoError(t, run.Cancel(t.Context(), "the same again"))
		time.Sleep(11 * time.Second)
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.StateRunning, status.State)
		require.NoError(t, run.Cancel(t.Context(), "second"))
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)

		run = begin(t, handle, 1)
		require.NoError(t, run.Cancel(t.Context(), "inside"))
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err, "it completes in time")
		require.Equal(t, []string{"done"}, out)
		time.Sleep(2 * time.Hour)
		status, err = run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.StateCompleted, status.State)
	})
}

// Machines are triggered as workflows are.
func TestMachinesAreTriggered(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := startMachine(t, worker(func(context.Context, int) (string, error) { return "done", nil }))
		runs, err := handle.RunMany(t.Context(), []int{1, 2, 3})
		require.NoError(t, err)
		synctest.Wait()
		for i, run := range runs {
			require.NoError(t, goOn.Send(t.Context(), run, ""))
			out, err := run.Await(t.Context())
			require.NoError(t, err)
			require.Len(t, out, i+1)
		}
		run, err := handle.TriggerWithSignal(t.Context(), 1, enact.With(3), troupe.Key("one"))
		require.NoError(t, err)
		again, err := handle.TriggerWithSignal(t.Context(), 1, enact.With(2), troupe.Key("one"))
		require.NoError(t, err)
		require.Equal(t, run.ID(), again.ID())
		synctest.Wait()
		require.NoError(t, goOn.Send(t.Context(), handle.ByKey("", "one"), ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Len(t, out, 6)
	})
}

// summed is the state of version 2.
type summed struct{ Total int }

func newCounter[S any](version int, migrate func(int, func(any) error) (S, error), add func(s *S, n int) int, calls *atomic.Int64) *statemachine.Machine[int, S, int] {
	return statemachine.Define("counter", func(m *statemachine.Builder[int, S, int]) {
		type acting = statemachine.Activation[S, int]
		m.Version(version, migrate)
		m.OnStart(func(a *acting, in int) { calls.Add(1); add(&a.State, in) })
		statemachine.OnSignal(m, enact, func(a *acting, n int) {
			calls.Add(1)
			if total := add(&a.State, n); n == 0 {
				a.Complete(total)
			}
		})
	})
}

// A newer version takes over the runs of an older one, which leaves them alone from then on.
func TestVersionsOfMachinesBesideEachOther(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newMemoryCluster()
		var one, two atomic.Int64
		older, _ := w.pod(t)
		first := newCounter(1, nil, func(s *int, n int) int { *s += n; return *s }, &one)
		handle, err := troupe.Register(older, first)
		require.NoError(t, err)
		require.NoError(t, older.Start(t.Context()))
		defer func() { require.NoError(t, older.Stop(context.Background())) }()
		run := begin(t, handle, 1)
		require.NoError(t, enact.Send(t.Context(), run, 2))
		synctest.Wait()
		require.EqualValues(t, 2, one.Load())

		var mended atomic.Bool
		newer, _ := w.pod(t)
		second := newCounter(2, func(from int, decode func(any) error) (s summed, err error) {
			if !mended.Load() {
				return s, errors.New("cannot be migrated yet")
			}
			return s, decode(&s.Total)
		}, func(s *summed, n int) int { s.Total += n; return s.Total }, &two)
		handle2, err := troupe.Register(newer, second)
		require.NoError(t, err)
		require.NoError(t, newer.Start(t.Context()))
		defer func() { require.NoError(t, newer.Stop(context.Background())) }()
		require.NoError(t, older.Stop(context.Background()))
		require.NoError(t, enact.Send(t.Context(), handle2.Get("", run.ID()), 3))
		time.Sleep(time.Second / 2)
		step := stepOf(t, handle2.Get("", run.ID()), "machine")
		require.Equal(t, []any{troupe.StateBackoff, "state_version"}, []any{step.State, step.Class})
		require.Contains(t, step.Error, "migrate the state of version 1: cannot be migrated yet")
		mended.Store(true)
		time.Sleep(4 * time.Hour) // the new pod leads by then
		state, err := second.State(t.Context(), handle2.Get("", run.ID()))
		require.NoError(t, err)
		require.Equal(t, summed{6}, state)

		third, _ := w.pod(t)
		handle3, err := troupe.Register(third, first)
		require.NoError(t, err)
		require.NoError(t, third.Start(t.Context()))
		defer func() { require.NoError(t, third.Stop(context.Background())) }()
		before := one.Load()
		require.NoError(t, enact.Send(t.Context(), handle3.Get("", run.ID()), 0))
		out, err := handle3.Get("", run.ID()).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 6, out)
		require.Equal(t, before, one.Load(), "the older program leaves it alone")
		require.True(t, slices.Contains([]int64{2, 3}, two.Load()))
	})
}
