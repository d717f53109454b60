package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// making says that a task succeeded and asks for dynamic tasks of its own step.
func (w *world) making(step int32, names ...string) TaskReported {
	g := w.plan.graph()
	r := w.report(step, TaskReported{Kind: Succeeded})
	for _, name := range names {
		r.Make = append(r.Make, NewDynamic(step, &g.Nodes[step], name))
	}
	return r
}

// A run does not end until the dynamic tasks that its only task made have ended. Their numbers
// leave one out for the failure handler.
func TestDynamicTasksHoldTheRun(t *testing.T) {
	t.Parallel()
	w := running(t, plan{steps: []planStep{{name: "a"}}})
	d := w.apply(w.making(0, "a#1", "a#2"))
	require.Equal(t, Running, d.Run.State)
	require.Equal(t, []int32{2, 3}, w.in(Queued))
	require.Equal(t, &Dynamic{Declared: 0, Owner: 0, Name: "a#2"}, w.task(3).Dynamic)
	require.Equal(t, LaneContinuing, w.queue[2].Lane)
	w.claim(2, 1)
	w.claim(3, 1)
	require.Equal(t, Running, w.apply(w.report(2, TaskReported{Kind: Succeeded})).Run.State)
	require.Equal(t, Completed, w.apply(w.report(3, TaskReported{Kind: Succeeded})).Run.State)
}

// A repeated report makes nothing a second time, and one that is stale makes nothing.
func TestDynamicTasksAreMadeOnce(t *testing.T) {
	t.Parallel()
	w := running(t, plan{steps: []planStep{{name: "a"}}})
	r := w.making(0, "a#1")
	w.apply(r)
	require.Equal(t, []Answer{AlreadyYours}, w.apply(r).Answers)
	r.Epoch++
	require.Equal(t, []Answer{Stale}, w.apply(r).Answers)
	require.EqualValues(t, 1, w.run.Dynamic)
}

// What a run makes while it stops ends at once, with an event.
func TestDynamicTasksOfARunThatStops(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(w *world){
		"cancel":    func(w *world) { w.apply(CancelRequested{Grace: time.Second}) },
		"fail_fast": func(w *world) { w.claim(1, 1); w.apply(w.report(1, TaskReported{Kind: Errored})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := running(t, plan{steps: []planStep{{name: "a"}, {name: "b"}}, policy: workflow.FailFast})
			stop(w)
			d := w.apply(w.making(0, "a#1"))
			require.Equal(t, Canceled, d.Created[0].State)
			require.Equal(t, []Event{{Step: 3, N: 1, Kind: EventCanceled, At: w.now, By: name}}, d.Events[1:2])
			require.True(t, d.Run.State.Terminal())
		})
	}
}

// A dynamic sleep sets its timer. The failure handler comes after all that was made, under
// the number before theirs.
func TestDynamicTasksAndTheFailureHandler(t *testing.T) {
	t.Parallel()
	w := running(t, plan{
		steps:  []planStep{{name: "a"}, {name: "b"}, {name: "nap", traits: workflow.TraitSleep, sleep: time.Hour}},
		policy: workflow.FinishSiblings, hasHandler: true,
	})
	g := w.plan.graph()
	r := w.report(0, TaskReported{Kind: Succeeded})
	r.Make = []Task{NewDynamic(2, &g.Nodes[2], "nap#1")}
	w.apply(r)
	require.Equal(t, []int32{2, 4}, w.in(Sleeping))
	w.claim(1, 1)
	w.apply(w.report(1, TaskReported{Kind: Errored, Class: "boom"}))
	w.fire(timerKey{2, SleepTimer})
	d := w.fire(timerKey{4, SleepTimer})
	require.Equal(t, int32(3), d.Created[0].Step)
	require.Nil(t, d.Created[0].Dynamic)
	require.Equal(t, []State{Completed, Failed, Completed, Queued, Completed}, w.states())
}

// A dynamic task has no children, whatever its step has.
func TestADynamicTaskHasNoChildren(t *testing.T) {
	t.Parallel()
	w := running(t, chain(2))
	d := w.apply(w.making(0, "again"))
	require.Empty(t, d.Created[0].Children)
	w.claim(3, 1)
	w.apply(w.report(3, TaskReported{Kind: Succeeded}))
	require.Equal(t, []int32{1}, w.in(Queued))
	require.Zero(t, w.task(1).Pending)
}
