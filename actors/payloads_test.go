package actors

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// scales weighs the inputs of the functions that are executed at the same time.
type scales struct {
	mu    sync.Mutex
	live  int
	peak  int
	begun []int // sizes of inputs, in the order in which functions began
	with  []int // bytes that were live then, its own included
}

func (s *scales) begin(in Inputs) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live += len(in.Input)
	s.peak = max(s.peak, s.live)
	s.begun, s.with = append(s.begun, len(in.Input)), append(s.with, s.live)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live -= len(in.Input)
	}
}

func (s *scales) order() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int{}, s.begun...)
}

// work is a step that takes a while, unless its context ends, and returns its input.
func (s *scales) work(d time.Duration) body {
	return func(ctx context.Context, in Inputs) (Output, error) {
		defer s.begin(in)()
		select {
		case <-ctx.Done():
			return Output{}, context.Cause(ctx)
		case <-time.After(d):
			return Output{Payload: in.Input}, nil
		}
	}
}

// weigh triggers runs of single steps with inputs of these sizes, one after the other.
func (w *world) weigh(p *Pod, sizes ...int) (runs []workflow.RunID) {
	w.t.Helper()
	for _, size := range sizes {
		order := w.order("single")
		order.Input = bytes.Repeat([]byte("1"), size)
		answers := w.stores(p, []persistence.Trigger{order})
		runs = append(runs, answers[0].Run)
		synctest.Wait()
	}
	return runs
}

func (w *world) requireEmptied(p *Pod) {
	w.t.Helper()
	synctest.Wait()
	held, waiting := p.rt.payloads.held()
	require.Zero(w.t, held)
	require.Zero(w.t, waiting)
}

func (w *world) requireHeld(p *Pod, bytes int64) {
	w.t.Helper()
	synctest.Wait()
	held, _ := p.rt.payloads.held()
	require.Equal(w.t, bytes, held)
}

// However many tasks have slots, their inputs stay within the memory of the pod.
func TestPayloadMemoryIsNotExceeded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		p := w.single(s.work(time.Minute), Config{Slots: 30, PayloadMemory: 350_000})
		sizes := make([]int, 30)
		for i := range sizes {
			sizes[i] = 100_000
		}
		runs := w.weigh(p, sizes...)
		held, waiting := p.rt.payloads.held()
		require.EqualValues(t, 300_000, held)
		require.Equal(t, 27, waiting)
		w.completed(runs...)
		require.Equal(t, 300_000, s.peak)
		w.requireEmptied(p)
	})
}

// Payloads in a grant need no memory of their own and wait for none.
func TestSmallPayloadsWaitForNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		p := w.single(s.work(time.Minute), Config{Slots: 10, PayloadMemory: 1000})
		runs := w.weigh(p, 100_000, persistence.InlinePayloadMax, 100_000, persistence.InlinePayloadMax)
		require.Equal(t, []int{100_000, persistence.InlinePayloadMax, persistence.InlinePayloadMax}, s.order())
		held, waiting := p.rt.payloads.held()
		require.EqualValues(t, 100_000+2*persistence.InlinePayloadMax, held, "it counts")
		require.Equal(t, 1, waiting)
		w.completed(runs...)
		w.requireEmptied(p)
	})
}

// A task that needs more than there is waits until nothing else has been read, keeps
// those that come later waiting, and is alone.
func TestATaskThatNeedsMoreThanTheMemoryReadsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		p := w.single(s.work(time.Minute), Config{Slots: 30, PayloadMemory: 350_000})
		runs := w.weigh(p, 100_000, 110_000, 900_000, 70_000, 80_000)
		w.completed(runs...)
		require.ElementsMatch(t, []int{100_000, 110_000}, s.begun[:2])
		require.Equal(t, 900_000, s.begun[2])
		require.Equal(t, 900_000, s.with[2])
		require.LessOrEqual(t, s.with[3], 150_000)
		w.requireEmptied(p)
	})
}

// A run that is canceled while its task waits ends at once, and makes way.
func TestCancelWhileWaitingForMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		p := w.single(s.work(30*time.Minute), Config{Slots: 30, PayloadMemory: 380_000})
		runs := w.weigh(p, 300_000, 200_000, 70_000)
		require.Equal(t, []int{300_000}, s.order())
		begun := time.Now()
		w.cancel(p, persistence.Cancel{Run: runs[1], Tenant: "default", Grace: time.Hour})
		require.Equal(t, lifecycle.Canceled, w.ended(runs[1]).State)
		require.Less(t, time.Since(begun), time.Minute)
		pass(time.Second)
		require.Equal(t, []int{300_000, 70_000}, s.order())
		w.completed(runs[0], runs[2])
		w.requireEmptied(p)
	})
}

// A pod that stops hands back what waits for memory: it was not begun, and costs no
// attempt.
func TestStopWhileTasksWaitForMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		p := w.single(s.work(30*time.Minute), Config{Slots: 30, PayloadMemory: 100_000, StopGrace: time.Second})
		runs := w.weigh(p, 90_000, 80_000, 70_000)
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []int{90_000}, s.order())
		w.start(Config{Slots: 30})
		w.completed(runs...)
		for _, run := range runs {
			tasks := w.tasks(run)
			require.EqualValues(t, 1, tasks[0].Attempt)
			require.Zero(t, tasks[0].Lost)
		}
	})
}

// The time of an attempt begins with its function, not with the wait for memory.
func TestWaitingForMemoryIsNoTimeOfTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &scales{}
		w.register(storetest.Single(), s.work(50*time.Second), func(f *StepFunction) {
			f.Options.AttemptTimeout, f.Options.Retry = time.Minute, workflow.RetryPolicy{Attempts: 1}
		})
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		w.completed(w.weigh(p, 90_000, 90_000, 90_000, 90_000)...)
		require.Equal(t, 90_000, s.peak)
	})
}

// A function that never returns keeps its memory, but not a task that must be alone from
// beginning.
func TestADeafFunctionDoesNotKeepOthersFromReading(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), func(_ context.Context, in Inputs) (Output, error) {
			if len(in.Input) == 70_000 {
				<-w.done
			}
			return Output{}, nil
		}, func(f *StepFunction) {
			f.Options.AttemptTimeout, f.Options.Retry = time.Minute, workflow.RetryPolicy{Attempts: 1}
		})
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		runs := w.weigh(p, 70_000, 900_000)
		require.Equal(t, lifecycle.Failed, w.ended(runs[0]).State)
		w.completed(runs[1])
		w.requireHeld(p, 70_000)
	})
}

// A function that never returns keeps no task from reading, though it was told at the end
// of its context that the run it waited for has ended.
func TestADeafFunctionThatWaitedForARunDoesNotKeepOthersFromReading(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		waited := make(chan struct{})
		w.register(storetest.Single(), func(ctx context.Context, in Inputs) (Output, error) {
			if len(in.Input) == 70_000 {
				AttemptFrom(ctx).Waits(true)
				<-ctx.Done()
				pass(2 * unresponsiveAfter)
				AttemptFrom(ctx).Waits(false)
				close(waited)
				<-w.done
			}
			return Output{}, nil
		}, func(f *StepFunction) {
			f.Options.AttemptTimeout, f.Options.Retry = time.Minute, workflow.RetryPolicy{Attempts: 1}
		})
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		unresponsive := w.weigh(p, 70_000)[0]
		<-waited
		require.Equal(t, lifecycle.Failed, w.ended(unresponsive).State)
		w.completed(w.weigh(p, 900_000)...)
		w.requireHeld(p, 70_000)
	})
}

// A function that has lost its actor keeps its memory, but no task from reading: it may
// never return.
func TestAnOrphanedFunctionDoesNotKeepOthersFromReading(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var calls atomic.Int64
		w.register(storetest.Single(), func(_ context.Context, in Inputs) (Output, error) {
			if len(in.Input) == 70_000 && calls.Add(1) == 1 {
				<-w.done
			}
			return Output{}, nil
		})
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		orphaned := w.weigh(p, 70_000)[0]
		kill(p, "runs")
		w.completed(w.weigh(p, 900_000)...)
		w.completed(orphaned) // its next attempt
		w.requireHeld(p, 70_000)
	})
}

// brittle is an executor that fails to begin the first attempt.
type brittle struct {
	Executor

	begun atomic.Int64
}

// Execute implements Executor.
func (b *brittle) Execute(to *PID, task workflow.TaskID, run func(deliver func(any))) {
	if b.begun.Add(1) == 1 {
		panic("it cannot begin")
	}
	b.Executor.Execute(to, task, run)
}

// A run actor that fails before it has called the function gives its permit back.
func TestAFailureBeforeTheFunctionIsCalledHoldsNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), (&scales{}).work(time.Second))
		w.system = newSystem(slog.New(slog.DiscardHandler))
		w.executor = &brittle{Executor: newExecutor(clock.System{}, func(to *PID, message any) { w.system.Root.Send(to, message) })}
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		w.completed(w.weigh(p, 90_000)...)
		w.requireEmptied(p)
	})
}

// A task that is let go of while it reads holds no memory until that is recorded: nothing
// of it is executed.
func TestATaskThatIsLetGoOfWhileItReadsHoldsNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		gate := w.hang("payload")
		s := &scales{}
		p := w.single(s.work(time.Second), Config{Slots: 30, PayloadMemory: 100_000})
		runs := w.weigh(p, 90_000)
		w.requireHeld(p, 90_000)
		w.outage()
		p.rt.send(p.rt.addresses.runs, &messages.LeaseFenced{})
		synctest.Wait()
		gate()
		w.requireEmptied(p)
		require.Empty(t, s.order(), "its function was not called")
		w.faults.failBefore(nil)
		p.rt.send(p.rt.addresses.runs, &messages.LeaseRestored{})
		w.completed(runs...)
	})
}

// A step that waits for another run does not keep from it the memory that it needs.
func TestAStepThatWaitsForARunLetsItRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inner := make(chan struct{})
		w.register(storetest.Single(), func(ctx context.Context, in Inputs) (Output, error) {
			if len(in.Input) == 900_000 {
				close(inner)
				return Output{}, nil
			}
			AttemptFrom(ctx).Waits(true)
			<-inner
			AttemptFrom(ctx).Waits(false)
			return Output{}, nil
		})
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		w.completed(w.weigh(p, 70_000, 900_000)...)
		w.requireEmptied(p)
	})
}

// A task whose inputs cannot be read gives its memory back while it rests.
func TestUnreadableInputsHoldNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.failBefore(failing("payload", errLostInput))
		w.register(storetest.Single(), (&scales{}).work(time.Second))
		p := w.start(Config{Slots: 30, PayloadMemory: 100_000})
		runs := w.weigh(p, 90_000, 90_000)
		require.Positive(t, w.count("payload"))
		w.requireEmptied(p)
		w.faults.failBefore(nil)
		w.completed(runs...)
	})
}
