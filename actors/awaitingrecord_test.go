package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// holding is a store in which the runs of one workflow are locked: their reports are
// answered Busy, and their steps are not begun.
type holding struct {
	persistence.Store

	graph *workflow.Graph
	off   atomic.Bool // released
	asked atomic.Int32
}

func (s *holding) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	answers := make([]persistence.RecordAnswer, len(record.Transitions))
	var rest []persistence.Transition
	var at []int
	for i, t := range record.Transitions {
		row, err := s.Run(ctx, "default", t.Task.Run)
		if err != nil {
			return persistence.Recorded{}, err
		}
		if row.Workflow == s.graph.Name && !s.off.Load() {
			s.asked.Add(1)
			answers[i].Result = lifecycle.Busy
			continue
		}
		rest, at = append(rest, t), append(at, i)
	}
	record.Transitions = rest
	out, err := s.Store.RecordTransitions(ctx, record)
	for i, answer := range out.Answers {
		answers[at[i]] = answer
	}
	out.Answers = answers
	return out, err
}

func (s *holding) RecordInTx(
	ctx context.Context, record persistence.Record, fn func(context.Context, any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	row, err := s.Run(ctx, "default", record.Task.Run)
	if err == nil && row.Workflow == s.graph.Name && !s.off.Load() {
		return persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: lifecycle.Busy}}}, nil
	}
	return s.Store.RecordInTx(ctx, record, fn)
}

// newHolding registers a workflow whose runs are locked, "single", and another.
func newHolding(w *world) (*holding, *gauge) {
	s, g := &holding{Store: w.store, graph: storetest.Single()}, newGauge()
	w.faults.Store = s
	w.register(s.graph, g.work(10*time.Millisecond))
	w.register(storetest.Diamond(), g.work(10*time.Millisecond))
	return s, g
}

// Tasks whose outcomes cannot be recorded yet release their slots, and are recorded after
// the lock is released.
func TestOutcomesThatWaitLeaveTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s, g := newHolding(w)
		p := w.start(Config{Slots: 4})
		pass(time.Millisecond)
		require.Equal(t, 4, p.Stats().Free, "nothing was begun yet")
		var held, others []workflow.RunID
		held = append(held, w.many(p, "single", 4)...)
		pass(time.Second)
		require.Equal(t, 4, p.Stats().Free)
		require.Zero(t, p.Stats().Running)
		require.Equal(t, 4, p.Stats().Journal)
		others = append(others, w.many(p, "diamond", 10)...)
		w.completed(others...)
		require.Greater(t, s.asked.Load(), int32(8), "they are tried again")
		s.off.Store(true)
		w.completed(held...)
		pass(time.Second)
		require.Equal(t, 4, p.Stats().Free)
		g.once(t)
		require.Equal(t, 4, g.most())
		require.Zero(t, p.Stats().Losses)
	})
}

// Steps with InTx of a locked run are not begun, and release their slots at once.
func TestStepsThatAreNotBegunLeaveTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		s := &holding{Store: w.store, graph: storetest.Single()}
		w.faults.Store = s
		w.register(s.graph, g.work(10*time.Millisecond), func(f *StepFunction) { f.Options.InTx = true })
		w.register(storetest.Diamond(), g.work(10*time.Millisecond))
		p := w.start(Config{Slots: 4})
		held := w.many(p, "single", 4)
		pass(restFor / 2)
		require.Equal(t, 4, p.Stats().Free)
		w.completed(w.trigger(p, "diamond"))
		require.Len(t, g.executions(), 4, "of the other run")
		s.off.Store(true)
		w.completed(held...)
		g.once(t)
		require.Zero(t, p.Stats().Losses)
	})
}

// At most four times as many tasks as there are slots release theirs: tasks that a pod has
// executed and not recorded are executed again if it dies.
func TestOutcomesThatWaitAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s, g := newHolding(w)
		p := w.start(Config{Slots: 4})
		runs := w.many(p, "single", 30)
		pass(time.Minute)
		require.Len(t, g.executions(), 4+4*awaitingRecordShare)
		require.Zero(t, p.Stats().Free)
		require.Equal(t, 4, p.Stats().Running)
		for _, name := range []string{"journal", "claimer", "runs"} {
			kill(p, name)
			pass(time.Minute)
			require.Zero(t, p.Stats().Free, name)
			require.Equal(t, 4, p.Stats().Running, name)
		}
		require.Len(t, g.executions(), 4+4*awaitingRecordShare)
		s.off.Store(true)
		w.completed(runs...)
		pass(time.Second)
		require.Equal(t, 4, p.Stats().Free)
		require.Len(t, g.executions(), 30)
	})
}

// Under a limit per tenant, other tasks wait until an awaited outcome is recorded.
func TestTheEndOfWhatWaitedIsHeardOf(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s, g := newHolding(w)
		p := w.start(Config{Slots: 8, TenantLimit: 4})
		runs := w.many(p, "single", 40)
		pass(time.Second)
		require.Len(t, g.executions(), 4)
		s.off.Store(true)
		began := time.Now()
		w.completed(runs...)
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

// A task that has released its slot leaves none to a child.
func TestChildrenOfWhatWaited(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		s := &holding{Store: w.store, graph: storetest.Diamond()}
		w.faults.Store = s
		w.register(s.graph, g.work(10*time.Millisecond))
		p := w.single(g.work(time.Hour), Config{Slots: 2})
		runs := []workflow.RunID{w.trigger(p, "diamond"), w.trigger(p, "diamond")}
		pass(time.Second)
		long := []workflow.RunID{w.trigger(p, "single"), w.trigger(p, "single")}
		pass(time.Second)
		require.Zero(t, p.Stats().Free)
		s.off.Store(true)
		pass(time.Minute)
		require.Equal(t, 2, p.Stats().Running)
		require.Zero(t, p.Stats().Inline, "nothing was granted that there is no slot for")
		w.completed(append(long, runs...)...)
		require.LessOrEqual(t, g.most(), 2)
		g.once(t)
	})
}

func TestLedgerReleasesSlots(t *testing.T) {
	t.Parallel()
	l := newLedger([]pool{{name: "a", slots: 1}, {name: "b", slots: 1}}, 1)
	hold := func(step int32, pool string, suspect bool) *held {
		return l.hold(&messages.StartTask{Task: &messages.Task{Step: step, Epoch: 2}, Suspect: suspect}, pool)
	}
	first, other := hold(1, "a", true), hold(3, "b", false)
	adopted := l.adopt(&messages.Task{Step: 4, Epoch: 2})
	for range 2 {
		l.releaseSlot(first)
		l.releaseSlot(adopted)
	}
	require.Equal(t, 1, l.free())
	require.Equal(t, 2, l.running())
	require.True(t, l.offerNew().GetSuspectEnded(), "its function has returned")
	all := []*held{other, adopted}
	for step := int32(10); step < 10+awaitingRecordShare; step++ {
		h := hold(step, "a", false)
		l.releaseSlot(h)
		all = append(all, h)
	}
	require.Zero(t, l.free(), "as many as may have given theirs back")
	require.Nil(t, l.offerNew())
	l.drop(first, false)
	require.Zero(t, l.free())
	require.Zero(t, l.stuck())
	require.Nil(t, l.offerNew())
	last := all[len(all)-1]
	last.abandoned = true
	l.releaseSlot(last) // its function uses the slot
	require.Zero(t, l.free())
	last.abandoned = false
	l.releaseSlot(last)
	require.Equal(t, 1, l.free())
	for _, h := range all {
		l.drop(h, true)
	}
	require.Equal(t, 2, l.free())
	require.Zero(t, l.running())
}

// A function that was given up leaves its slot once it returns, although its outcome cannot be
// recorded yet.
func TestAFunctionThatReturnsAtLastLeavesItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := &holding{Store: w.store, graph: storetest.Single()}
		w.faults.Store = s
		release := make(chan struct{})
		w.register(s.graph, untilClosed(release), func(f *StepFunction) { f.Options.AttemptTimeout = time.Second })
		p := w.start(Config{Slots: 1})
		held := w.trigger(p, "single")
		pass(time.Minute)
		require.Zero(t, p.Stats().Free, "it holds its slot while it runs")
		close(release)
		pass(time.Second)
		require.Equal(t, 1, p.Stats().Free)
		s.off.Store(true)
		w.ended(held)
		pass(time.Second)
		require.Equal(t, 1, p.Stats().Free)
		require.Zero(t, p.Stats().Stuck)
	})
}
