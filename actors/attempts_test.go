package actors

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// nasty is an error whose methods panic.
type nasty struct{}

func (nasty) Error() string { panic("no text") }

func (nasty) Is(error) bool { panic("no identity") }

func (nasty) As(any) bool { panic("no type") }

// TestBadStepFunctions: whatever a function does, its attempt fails with a class and a
// text, and the pod keeps working.
func TestBadStepFunctions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     body
		class  string
		text   string
		change func(*StepFunction)
	}{
		"error":     {do: func(context.Context, Inputs) (Output, error) { return Output{}, errors.New("no stock") }, text: "no stock"},
		"classed":   {do: func(context.Context, Inputs) (Output, error) { return Output{}, WithClass("stock", errors.New("none")) }, class: "stock", text: "none"},
		"panic":     {do: func(context.Context, Inputs) (Output, error) { panic("boom") }, class: classPanic, text: "panic: boom"},
		"panic nil": {do: func(context.Context, Inputs) (Output, error) { panic(nil) }, class: classPanic, text: "panic"},
		"goexit":    {do: func(context.Context, Inputs) (Output, error) { goruntime.Goexit(); return Output{}, nil }, class: classPanic, text: "Goexit"},
		"nil pointer": {do: func(context.Context, Inputs) (Output, error) {
			var p *persistence.Trigger
			return Output{Payload: p.Input}, nil
		}, class: classPanic, text: "nil pointer"},
		"channel closed twice": {do: func(context.Context, Inputs) (Output, error) {
			c := make(chan int)
			close(c)
			close(c)
			return Output{}, nil
		}, class: classPanic, text: "close of closed channel"},
		"text of 10 MB": {do: func(context.Context, Inputs) (Output, error) {
			return Output{}, errors.New("long" + strings.Repeat("x\x00", 5<<20))
		}, text: "longx"},
		"error that panics": {do: func(context.Context, Inputs) (Output, error) { return Output{}, nasty{} }, class: classPanic, text: "panic"},
		"retry rule that panics": {
			do: func(context.Context, Inputs) (Output, error) { return Output{}, errors.New("no stock") }, class: classPanic, text: "no rule",
			change: func(f *StepFunction) {
				f.Options.Retry = workflow.RetryPolicy{Attempts: 3, First: time.Second, Factor: 2, Cap: time.Minute}
				f.RetryIf = func(error) bool { panic("no rule") }
			},
		},
		"output too large": {do: func(context.Context, Inputs) (Output, error) {
			return Output{Payload: make([]byte, 1<<20+1)}, nil
		}, class: classTooLarge, text: "1048577 bytes"},
		"attempt timeout": {
			do: newGauge().work(time.Hour), class: classTimedOut, text: ErrAttemptTimeout.Error(),
			change: func(f *StepFunction) { f.Options.AttemptTimeout = time.Second },
		},
		"heartbeat timeout": {
			do: newGauge().work(time.Hour), class: classTimedOut, text: ErrHeartbeatTimeout.Error(),
			change: func(f *StepFunction) { f.Options.HeartbeatLimit = time.Second },
		},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			change := c.change
			if change == nil {
				change = func(*StepFunction) {}
			}
			w.register(storetest.Single(), c.do, change)
			w.register(storetest.Chain(2), newGauge().work(time.Millisecond))
			p := w.start(Config{Slots: 1})
			row := w.ended(w.trigger(p, "single"))
			require.Equal(t, lifecycle.Failed, row.State)
			require.Equal(t, c.class, row.Class)
			require.Contains(t, row.Error, c.text)
			require.Less(t, len(row.Error), 9<<10)
			require.NotContains(t, row.Error, "\x00")
			w.completed(w.trigger(p, "chain2"))
			require.Zero(t, p.Stats().Restarts, "no actor failed")
		}))
	}
}

// TestDefaultTimeouts: steps that name no timeout take the pod's; those in a
// transaction always have one.
func TestDefaultTimeouts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inTx   bool
		config Config
		limit  time.Duration
	}{
		"plain":         {config: Config{AttemptTimeout: 7 * time.Second}, limit: 7 * time.Second},
		"in tx":         {inTx: true, limit: 30 * time.Second},
		"in tx, chosen": {inTx: true, config: Config{InTxTimeout: 3 * time.Second}, limit: 3 * time.Second},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			w.register(storetest.Single(), newGauge().work(time.Hour), func(f *StepFunction) { f.Options.InTx = c.inTx })
			p := w.start(c.config)
			begun := time.Now()
			row := w.ended(w.trigger(p, "single"))
			require.Equal(t, classTimedOut, row.Class)
			require.InDelta(t, c.limit.Seconds(), time.Since(begun).Seconds(), 0.2)
		}))
	}
}

func TestHeartbeatKeepsAnAttemptAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
			for range 10 {
				pass(900 * time.Millisecond)
				if err := AttemptFrom(ctx).Heartbeat([]byte("half")); err != nil {
					return Output{}, err
				}
			}
			return Output{}, nil
		}, func(f *StepFunction) { f.Options.HeartbeatLimit = time.Second })
		w.completed(w.trigger(w.start(Config{}), "single"))
	})
}

// TestDeafFunctions: a function that ignores the end of its context gives up
// its slot, up to a limit, and the slot comes back when it returns.
func TestDeafFunctions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.register(storetest.Single(), untilClosed(release), func(f *StepFunction) { f.Options.AttemptTimeout = time.Second })
		p := w.start(Config{Slots: 3, StuckMax: 1})
		first, second := w.trigger(p, "single"), w.trigger(p, "single")
		for _, run := range []workflow.RunID{first, second} {
			row := w.ended(run)
			require.Equal(t, classTimedOut, row.Class)
		}
		pass(time.Second)
		stats := p.Stats()
		require.Equal(t, 2, stats.Stuck)
		require.Equal(t, 2, stats.Free, "one slot was given up, the other is in use")
		close(release)
		pass(time.Second)
		stats = p.Stats()
		require.Zero(t, stats.Stuck)
		require.Equal(t, 3, stats.Free)
		require.Empty(t, w.children(p, p.rt.addresses.runs), "no run actor is left")
	})
}

// TestCancelGrace: a running task learns of the cancel; one that ignores it
// is fenced after the grace, and gives up its slot.
func TestCancelGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release, causes := make(chan struct{}), make(chan error, 1)
		w.register(storetest.Single(), untilEnded(causes))
		w.register(storetest.Chain(2), untilClosed(release))
		p := w.start(Config{Slots: 2})
		polite, unresponsive := w.trigger(p, "single"), w.trigger(p, "chain2")
		pass(time.Second)
		begun := time.Now()
		for _, run := range []workflow.RunID{polite, unresponsive} {
			w.cancel(p, persistence.Cancel{Run: run, Tenant: "default", By: "test", Grace: 30 * time.Second})
		}
		require.ErrorIs(t, <-causes, ErrCanceled)
		require.Equal(t, lifecycle.Canceled, w.ended(polite).State)
		require.Less(t, time.Since(begun), time.Second)
		require.Equal(t, lifecycle.Canceled, w.ended(unresponsive).State)
		require.GreaterOrEqual(t, time.Since(begun), 30*time.Second)
		pass(15 * time.Second)
		stats := p.Stats()
		require.Equal(t, 1, stats.Stuck)
		require.Equal(t, 2, stats.Free, "its slot was given up")
		close(release)
		pass(time.Second)
		require.Equal(t, 2, p.Stats().Free)
		require.Zero(t, p.Stats().Stuck)
	})
}

// TestALostTaskIsNotBegun: between grant and execution the pod may lose the
// task, and a step function whose goroutine is late is not called then.
func TestALostTaskIsNotBegun(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{ErrLeaseLost, ErrStopping} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		end := plainAttempt(ctx, &StepFunction{Call: func(context.Context, Inputs) (Output, error) {
			t.Error("called")
			return Output{}, nil
		}}, Inputs{})
		require.Contains(t, end.failed.text, cause.Error())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCanceled)
	called := false
	plainAttempt(ctx, &StepFunction{Call: func(context.Context, Inputs) (Output, error) {
		called = true
		return Output{}, nil
	}}, Inputs{})
	require.True(t, called, "a step of a canceled run is granted in order to be told")
}

// TestLeaseLost: a pod that cannot renew ends its contexts before the lease ends, records
// nothing, and resumes when it can renew.
func TestLeaseLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		causes := make(chan error, 10)
		var calls atomic.Int32
		w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
			if calls.Add(1) > 1 {
				return Output{}, nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Output{}, ctx.Err()
		})
		p := w.start(Config{})
		run := w.trigger(p, "single")
		pass(6 * time.Second)
		heal := w.outage()
		begun := time.Now()
		require.ErrorIs(t, <-causes, ErrLeaseLost)
		require.Less(t, time.Since(begun), 15*time.Second)
		require.False(t, p.Stats().Ready)
		require.Equal(t, "the database does not answer", p.Stats().Unrenewed)
		pass(time.Minute)
		heal()
		w.completed(run)
		require.Empty(t, p.Stats().Unrenewed)
		require.Equal(t, int64(1), p.Stats().Pod, "a late pod that was not declared dead keeps its number")
		require.True(t, p.Stats().Ready)
		tasks := w.tasks(run)
		require.Zero(t, tasks[0].Lost, "it was not taken over: no loss")
		require.Zero(t, p.Stats().Restarts, "a database that is away is no failure of an actor")
	})
}
