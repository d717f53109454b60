package actors

import (
	"context"
	"errors"
	"fmt"
	gort "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// oddError is an error of the embedder's that calls back.
type oddError struct{ text func() string }

func (e oddError) Error() string { return e.text() }

// The methods of an error and the retry rule are the embedder's code, too: whatever they
// do, the slot is freed and the pod keeps working.
func TestErrorsThatMisbehave(t *testing.T) {
	t.Parallel()
	leave := func() string { gort.Goexit(); return "" }
	for name, test := range map[string]struct {
		err     error
		retryIf func(error) bool
		want    string
	}{
		"Error ends the goroutine":   {err: oddError{leave}, want: "Goexit"},
		"Error panics":               {err: oddError{func() string { panic("no text") }}, want: "no text"},
		"RetryIf ends the goroutine": {err: errors.New("a"), retryIf: func(error) bool { leave(); return true }, want: "Goexit"},
		"RetryIf panics":             {err: errors.New("a"), retryIf: func(error) bool { panic("no rule") }, want: "no rule"},
		"RetryIf hangs":              {err: errors.New("a"), want: "timed out"},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			if name == "RetryIf hangs" {
				test.retryIf = func(error) bool { <-w.done; return true }
			}
			w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) { return Output{}, test.err },
				func(f *StepFunction) { f.RetryIf, f.Options.AttemptTimeout = test.retryIf, time.Minute })
			p := w.start(Config{Slots: 1})
			row := w.ended(w.trigger(p, "single"))
			require.Equal(t, lifecycle.Failed, row.State)
			require.Contains(t, row.Error, test.want)
			pass(time.Minute)
			require.Equal(t, 1, p.Stats().Free)
		}))
	}
}

// A step whose transaction the database does not take is not executed without
// end: conflicts cost attempts, and while the database is away
// the task is tried again at a pace.
func TestTransactionsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	unavailable := func(context.Context) error { return persistence.ErrUnavailable }
	for name, c := range map[string]struct {
		config Config
		times  int
		fail   func(ctx context.Context) error
		calls  int
		class  string
		least  time.Duration
	}{
		"a conflict":  {times: 1000, fail: func(context.Context) error { return persistence.ErrConflict }, calls: 3, class: classConflict},
		"unavailable": {times: 60, fail: unavailable, calls: 61, least: 60 * restFor},
		"no connection is free, or none answers": {
			config: Config{InTxTimeout: time.Second}, times: 5, calls: 6,
			fail: func(ctx context.Context) error { <-ctx.Done(); return persistence.ErrUnavailable },
		},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			w.faults.failBefore(func(ctx context.Context, call string) error {
				if call == "record in tx" && w.count(call) <= c.times {
					return c.fail(ctx)
				}
				return nil
			})
			w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) {
				f.Options.InTx, f.Options.Retry = true, workflow.RetryPolicy{Attempts: 3}
			})
			begun := time.Now()
			row := w.ended(w.trigger(w.start(c.config), "single"))
			require.Equal(t, c.class, row.Class)
			require.Equal(t, c.class != "", row.State == lifecycle.Failed)
			require.Equal(t, c.calls, w.count("record in tx"))
			require.GreaterOrEqual(t, time.Since(begun), c.least)
			if c.class == "" {
				require.EqualValues(t, 1, w.tasks(row.ID)[0].Attempt, "what comes before its function is not charged to a step")
			}
		}))
	}
}

// A transaction that breaks each time costs attempts in the end; one that broke
// because the database was away does not.
func TestTransactionsThatBreak(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks, calls int64
		state         lifecycle.State
	}{
		"each time":     {1000, vitals.TaskFailuresMax + 2, lifecycle.Failed},
		"for some time": {vitals.TaskFailuresMax, vitals.TaskFailuresMax + 1, lifecycle.Completed},
		"server away":   {3 * vitals.TaskFailuresMax, 3*vitals.TaskFailuresMax + 1, lifecycle.Completed},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.faults.failBefore(func(_ context.Context, call string) error {
				if call == "record in tx" && calls.Add(1) <= test.breaks {
					if name == "server away" { // as the listener's session notices
						w.pods[0].rt.vitals.with(func(v *vitals.Vitals) { v.FoundAway(time.Now()) })
					}
					return persistence.ErrTxBroken
				}
				return nil
			})
			w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) {
				f.Options.InTx, f.Options.Retry = true, workflow.RetryPolicy{Attempts: 2}
			})
			p := w.start(Config{})
			row := w.ended(w.trigger(p, "single"))
			require.Equal(t, test.state, row.State)
			require.Equal(t, test.calls, calls.Load())
			if test.state == lifecycle.Failed {
				require.Equal(t, classTxBroken, row.Class)
				return
			}
			p.rt.vitals.with(func(v *vitals.Vitals) {
				require.Equal(t, 1, v.Tx.Broke(workflow.TaskID{Run: row.ID}, time.Now(), time.Time{}), "the count begins anew")
			})
		}))
	}
}

// A database that refuses everything, whatever the reason, is not one to be ready
// on.
func TestAPodThatCannotWriteIsNotReady(t *testing.T) {
	t.Parallel()
	for text, cause := range map[string]error{
		"disk is full": persistence.ErrDiskFull, "takes no writes": persistence.ErrReadOnly, "lacks memory": persistence.ErrNoResources,
	} {
		serially(t, func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Millisecond), Config{})
			require.True(t, p.Stats().Ready)
			w.faults.failBefore(func(context.Context, string) error { return fmt.Errorf("call: %w", cause) })
			pass(6 * time.Second) // a renewal
			require.False(t, p.Stats().Ready)
			require.Contains(t, p.Stats().NoWrites, text)
			w.faults.failBefore(nil)
			pass(10 * time.Second)
			require.True(t, p.Stats().Ready)
			require.Empty(t, p.Stats().NoWrites)
		})
	}
}

// A pod stays ready if the server refuses connections only for calls that are not
// essential.
func TestAPodThatLacksConnectionsForOtherCallsIsReady(t *testing.T) {
	t.Parallel()
	for refused, ready := range map[string]bool{"archive": true, "record": false} {
		serially(t, func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Millisecond), Config{})
			var met atomic.Bool
			w.faults.failBefore(func(_ context.Context, call string) error {
				if call != refused {
					return nil
				}
				met.Store(true)
				return fmt.Errorf("call: %w", persistence.ErrNoResources)
			})
			w.trigger(p, "single")
			for i := 0; i < 600 && !met.Load(); i++ {
				pass(100 * time.Millisecond)
			}
			require.True(t, met.Load(), refused)
			require.Equal(t, ready, p.Stats().Ready, refused)
			w.faults.failBefore(nil)
			pass(10 * time.Second)
		})
	}
}

// deadLine is a store whose connections for steps are dead on their way.
type deadLine struct {
	persistence.Store

	dead bool
}

func (s deadLine) RecordInTx(
	ctx context.Context, r persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	recorded, err := s.Store.RecordInTx(ctx, r, fn)
	if err != nil && s.dead {
		err = persistence.ErrTxBroken
	}
	return recorded, err
}

// A step whose time was up while its connection was dead is handed back; one whose
// statements took too long is not.
func TestTimeSpentOnADeadConnectionIsNotCharged(t *testing.T) {
	t.Parallel()
	for dead, state := range map[bool]lifecycle.State{true: lifecycle.Completed, false: lifecycle.Failed} {
		serially(t, func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.pool = deadLine{w.store, dead}
			w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
				if calls.Add(1) <= 2 {
					<-ctx.Done()
					return Output{}, context.Cause(ctx)
				}
				return Output{Payload: []byte("1")}, nil
			}, func(f *StepFunction) {
				f.Options.InTx, f.Options.AttemptTimeout, f.Options.Retry = true, time.Second, workflow.RetryPolicy{Attempts: 1}
			})
			row := w.ended(w.trigger(w.start(Config{}), "single"))
			require.Equal(t, state, row.State, row.Error)
		})
	}
}

// A step that is given fewer inputs than it has waits for its definition to come
// back: that costs no attempt.
func TestAStepWithoutItsInputsIsHandedBack(t *testing.T) {
	t.Parallel()
	for _, inTx := range []bool{false, true} {
		serially(t, func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) {
				if calls.Add(1) <= 3 {
					return Output{}, WithClass("decoding", ErrInputsMissing)
				}
				return Output{}, nil
			}, func(f *StepFunction) { f.Options.InTx = inTx })
			begun := time.Now()
			w.completed(w.trigger(w.start(Config{}), "single"))
			require.EqualValues(t, 4, calls.Load())
			require.GreaterOrEqual(t, time.Since(begun), 3*restFor)
		})
	}
}

// A function is executed for its own step only, whatever the numbers say.
func TestNoFunctionIsExecutedForAnotherStep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		w.register(storetest.Single(), g.work(time.Millisecond), func(f *StepFunction) { f.Step = "another" })
		p := w.start(Config{})
		run := w.trigger(p, "single")
		pass(time.Minute)
		require.Empty(t, g.executions())
		row, err := w.store.Run(t.Context(), "", run)
		require.NoError(t, err)
		require.False(t, row.State.Terminal(), "it waits for a process that knows it")
		require.Less(t, len(w.faults.made()), 1000, "at a pace")
	})
}

// A pod that stops does not wait for tasks that rest.
func TestStopWhileATaskRests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.failBefore(failing("record in tx", persistence.ErrUnavailable))
		w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) { f.Options.InTx = true })
		p := w.start(Config{})
		run := w.trigger(p, "single")
		pass(100 * time.Millisecond)
		begun := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		require.Less(t, time.Since(begun), 2*restFor)
		tasks := w.tasks(run)
		require.Equal(t, lifecycle.Queued, tasks[0].State)
		require.Zero(t, tasks[0].Lost)
	})
}

// An attempt of a step with InTx that ran out of time while the pod missed the
// database waited for that: it is made again, up to a point.
func TestATimeoutWhileTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		away, calls int64
		inTx        bool
		state       lifecycle.State
	}{
		"once":            {1, 2, true, lifecycle.Completed},
		"each time":       {1000, vitals.TaskFailuresMax + 1, true, lifecycle.Failed},
		"not at all":      {0, 1, true, lifecycle.Failed},
		"a step as usual": {1, 1, false, lifecycle.Failed},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
				n := calls.Add(1)
				if n > test.away && test.away > 0 {
					return Output{Payload: []byte("1")}, nil
				}
				pass(time.Millisecond)
				if test.away > 0 {
					w.pods[0].rt.vitals.with(func(v *vitals.Vitals) { v.FoundAway(time.Now()) })
				}
				<-ctx.Done()
				return Output{}, ctx.Err()
			}, func(f *StepFunction) { f.Options.InTx, f.Options.AttemptTimeout = test.inTx, time.Second })
			row := w.ended(w.trigger(w.start(Config{}), "single"))
			require.Equal(t, test.state, row.State)
			require.Equal(t, test.calls, calls.Load())
		}))
	}
}

// A caller whose cancel cannot be recorded is told the error.
func TestACancelThatIsTriedInVainSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Hour), Config{Slots: 5})
		run := w.trigger(p, "single")
		w.faults.failBefore(failing("cancel", fmt.Errorf("%w: its definition was removed", persistence.ErrUnavailable)))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Cancel(ctx, persistence.Cancel{Run: run, Tenant: "default", By: "test", Grace: time.Second})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "its definition was removed")
		p.Kill()
	})
}
