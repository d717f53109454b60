package actors

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// patient is an executor that yields when it is told to.
type patient struct {
	Executor

	mu       sync.Mutex
	yield    []func()
	messages []any
}

// Yield implements Executor.
func (p *patient) Yield(to *PID, message any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, message)
	p.yield = append(p.yield, func() { p.Executor.Yield(to, message) })
}

// pass runs the yielded goroutines, and returns how many they were.
func (p *patient) pass() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.yield)
	for _, goOn := range p.yield {
		goOn()
	}
	p.yield = nil
	return n
}

// hosting is the environment of the pods to come; nil: that of production.
type hosting struct {
	executor Executor
	metrics  Metrics
	log      *slog.Logger
}

// patientPod starts a pod whose executor yields when it is told to.
func (w *world) patientPod(do body) (*Pod, *patient) {
	w.t.Helper()
	w.register(storetest.Single(), do)
	w.system = newSystem(slog.New(slog.DiscardHandler))
	p := &patient{Executor: newExecutor(clock.System{}, func(to *PID, message any) { w.system.Root.Send(to, message) })}
	w.executor = p
	return w.start(Config{}), p
}

// triggers asks for runs, by as many callers.
func (w *world) triggers(p *Pod, n int) (await func() []workflow.RunID) {
	w.t.Helper()
	var callers sync.WaitGroup
	runs := make([]workflow.RunID, n)
	for i := range runs {
		callers.Go(func() { runs[i] = w.trigger(p, "single") })
	}
	synctest.Wait()
	return func() []workflow.RunID {
		callers.Wait()
		return runs
	}
}

// Callers who were answered together are expected to ask together again: a batch
// begins once those who are ready have asked.
func TestTriggersOfCallersWhoAskTogetherAreOneBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p, yields := w.patientPod(newGauge().work(time.Hour))
		hold := make(chan struct{})
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "trigger" {
				<-hold
			}
			return nil
		})
		first := w.triggers(p, 1)
		require.Zero(t, yields.pass(), "no more entries are expected")
		then := w.triggers(p, 3) // during the first
		close(hold)
		first()
		then()
		before := w.count("trigger")
		one := w.triggers(p, 1)
		two := w.triggers(p, 2)
		require.Equal(t, before, w.count("trigger"), "it has not begun")
		require.Equal(t, 1, yields.pass())
		one()
		two()
		require.Equal(t, before+1, w.count("trigger"))
	})
}

// Tasks that were begun together are expected to end together.
func TestReportsOfTasksThatEndTogetherAreOneBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ends := make(chan struct{})
		p, yields := w.patientPod(func(context.Context, Inputs) (Output, error) {
			<-ends
			return Output{Payload: []byte("1")}, nil
		})
		runs := append(w.triggers(p, 1)(), w.triggers(p, 1)()...)
		require.Equal(t, 2, p.Stats().Running)
		for range 2 {
			ends <- struct{}{}
			synctest.Wait()
		}
		require.Zero(t, w.count("record"), "it has not begun")
		require.Equal(t, 1, yields.pass())
		w.completed(runs...)
		require.Equal(t, 1, w.count("record"))

		runs = w.triggers(p, 1)()
		ends <- struct{}{}
		w.completed(runs...)
		require.Zero(t, yields.pass(), "no more entries are expected")
	})
}

// A large batch does not wait.
func TestALargeBatchIsNotGathered(t *testing.T) {
	t.Parallel()
	yields := &patient{}
	b, g, calls := &base{rt: &runtime{executor: yields}}, &linger{}, 0
	then := func() { calls++ }
	require.False(t, g.begin(b, lingerEnough, true, then))
	require.True(t, g.begin(b, lingerEnough-1, true, then))
	require.True(t, g.begin(b, lingerEnough, true, then), "then is called later")
	require.Len(t, yields.messages, 1)
	m, is := yields.messages[0].(*happened)
	require.True(t, is)
	(&base{}).handle(m)
	require.Zero(t, calls, "of a former incarnation")
	b.handle(m)
	require.Equal(t, 1, calls)
	require.False(t, g.begin(b, lingerEnough, true, then))
}
