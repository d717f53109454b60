package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// running returns a run of p with its first step running and the rest pending.
func running(t *testing.T, p plan) *world {
	t.Helper()
	w := newWorld(t, p)
	w.apply(RunStarted{})
	w.claim(0, 1)
	return w
}

func (w *world) decide(complete bool, fact Fact, steps ...int32) Decision {
	rows := Rows{Complete: complete}
	for _, step := range steps {
		rows.Tasks = append(rows.Tasks, *w.task(step))
	}
	return Decide(w.run, rows, []Fact{fact}, w.now)
}

// TestDecideAsksForRows: a decision that reaches a row it was not given says
// so, names it once, and does not end the run.
func TestDecideAsksForRows(t *testing.T) {
	t.Parallel()
	p := plan{policy: workflow.FailFast, steps: []planStep{
		{name: "a"},
		{name: "b", edges: []planEdge{{parent: 0, kind: workflow.Plain, conditioned: true}}},
		{name: "c", edges: []planEdge{{parent: 1, kind: workflow.Plain}}},
	}}
	w := running(t, p)
	skip := w.report(0, TaskReported{Kind: Succeeded, Edges: []EdgeFlag{{Child: 1, Flags: FlagSkip}}})

	require.Equal(t, []int32{1}, w.decide(false, skip, 0).Missing, "its child")
	require.Equal(t, []int32{2}, w.decide(false, skip, 0, 1).Missing, "the child of its child")
	require.False(t, w.decide(false, skip, 0, 1).Ended)
	d := w.decide(false, skip, 0, 1, 2)
	require.Empty(t, d.Missing)
	require.True(t, d.Ended)

	p.steps[0].traits = workflow.TraitChild
	waits := running(t, p)
	waits.apply(waits.report(0, TaskReported{Kind: Yielded}))
	ended := ChildEnded{Step: 0, State: Skipped}
	require.Equal(t, []int32{0}, waits.decide(false, ended).Missing, "the step that waits")
	require.Equal(t, []int32{1}, waits.decide(false, ended, 0).Missing, "its child")
	require.False(t, waits.decide(false, ended, 0, 1).Ended)
	require.True(t, waits.decide(false, ended, 0, 1, 2).Ended)

	ok := w.report(0, TaskReported{Kind: Succeeded})
	require.Empty(t, w.decide(false, ok, 0, 1).Missing, "an ordinary completion needs the children only")
	require.False(t, w.decide(false, ok, 0, 1).MissingAll)
}

func TestDecideAsksForAllRows(t *testing.T) {
	t.Parallel()
	p := plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}, {name: "b"}}}
	w := running(t, p)
	failed := w.report(0, TaskReported{Kind: Errored})
	require.True(t, w.decide(false, failed, 0).MissingAll, "a failure looks for what it stops")
	require.True(t, w.decide(false, CancelRequested{}).MissingAll)
	require.True(t, newWorld(t, p).decide(false, RunStarted{}).MissingAll)

	w.apply(CancelRequested{Grace: time.Second})
	require.True(t, w.decide(false, TimerFired{Step: RunStep, Timer: CancelGraceTimer}).MissingAll)

	p.policy = workflow.FinishSiblings
	w = running(t, p)
	failed = w.report(0, TaskReported{Kind: Errored})
	require.False(t, w.decide(false, failed, 0).MissingAll)
}

// TestUnknownTasks: a fact about a task that was not loaded asks for it; one
// that does not exist is stale, so that asking comes to an end.
func TestUnknownTasks(t *testing.T) {
	t.Parallel()
	w := running(t, plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}}})
	for _, fact := range []Fact{
		TaskReported{Step: 9, Kind: Succeeded}, TimerFired{Step: 9, Timer: SleepTimer}, ChildEnded{Step: 9, State: Completed},
	} {
		require.Equal(t, []int32{9}, w.decide(false, fact, 0).Missing)
		d := w.decide(true, fact, 0)
		require.Empty(t, d.Missing)
		require.Equal(t, []Answer{Stale}, d.Answers)
	}
}

func TestIllegalFacts(t *testing.T) {
	t.Parallel()
	w := running(t, plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}}})
	for _, fact := range []Fact{
		w.report(0, TaskReported{}), w.report(0, TaskReported{Kind: 9}), w.report(0, TaskReported{Kind: Yielded}),
		TimerFired{Timer: 0, Epoch: 2},
		TimerFired{Timer: 9, Epoch: 2},
		TimerFired{Timer: SleepTimer, Epoch: 2},
	} {
		d := w.decide(true, fact, 0)
		require.Equal(t, []Answer{Illegal}, d.Answers, "%+v", fact)
		require.Empty(t, d.Tasks)
		require.Empty(t, d.Events)
	}
	require.Equal(t, []Answer{Stale}, w.decide(true, TaskReported{Epoch: 1, Pod: 1, Kind: 9}, 0).Answers)
	require.Panics(t, func() { Decide(Run{}, Rows{}, []Fact{nil}, w.now) })
}

// TestLaneOfABatch: only what a start makes ready is new.
func TestLaneOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{policy: workflow.FailFast, steps: []planStep{
		{name: "nap", traits: workflow.TraitSleep},
		{name: "a"},
		{name: "b", edges: []planEdge{{parent: 0, kind: workflow.Plain}}},
	}})
	d := w.apply(RunStarted{}, TimerFired{Step: 0, Timer: SleepTimer, Epoch: 1})
	require.Equal(t, []Enqueue{{Step: 1, Lane: LaneNew}, {Step: 2, Lane: LaneContinuing}}, d.Enqueued)
	require.Empty(t, d.Timers, "the timer that was set has fired")
}

// A later version may have flags and traits beyond the first byte: a decision of this one
// leaves them on the row.
func TestFlagsAndTraitsOfTwoBytesAreKept(t *testing.T) {
	t.Parallel()
	w := running(t, plan{steps: []planStep{{name: "a"}}})
	w.tasks[0].Flags |= 1 << 12
	w.tasks[0].Traits |= 1 << 13
	d := w.decide(true, w.report(0, TaskReported{Kind: Errored, Class: "boom", Retry: true, RetryIn: time.Second}), 0)
	require.Equal(t, Flags(1<<12), d.Tasks[0].Flags)
	require.Equal(t, workflow.Traits(1<<13), d.Tasks[0].Traits)
}
