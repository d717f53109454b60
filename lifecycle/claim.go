package lifecycle

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Claim grants a queued task to a pod: the one transition outside Decide,
// because it changes nothing but the task itself. The caller has checked that
// the task is queued. The event of a machine is none, with Kind 0. A timer of its wait in the queue may stay: it is stale by
// its epoch, and whatever ends the attempt drops it.
func Claim(t Task, pod int64, now time.Time) (Task, Event) {
	if err := CheckTask(t.State, Running); err != nil {
		panic(err)
	}
	t.State, t.Pod = Running, pod
	t.Epoch++
	if t.Traits.Has(workflow.TraitMachine) { // the end of the activation is an event
		return t, Event{}
	}
	return t, Event{Step: t.Step, N: t.Epoch, Kind: EventStarted, At: now, Pod: pod, Attempt: t.Attempt + 1}
}

// NewTask returns the row that a step of a graph starts from.
func NewTask(step int32, node *workflow.Node) Task {
	return Task{
		Step: step, State: Pending, Traits: node.Traits,
		Pending: node.Pending, Parents: node.Pending, Children: node.Children,
		Sleep: node.Sleep, Signal: node.Signal, StartTimeout: node.StartTimeout,
	}
}

// NewRun returns the row that a run of a graph starts from.
func NewRun(graph *workflow.Graph) Run {
	return Run{
		State: Pending, Policy: graph.Policy,
		Steps: graph.Steps(), Remaining: graph.Sinks(),
		Events:     1, // run_created
		HasHandler: graph.OnFailure != nil, Slow: NeedsSlowPath(graph),
	}
}

// NewChild returns the row that a child run of a graph starts from. The fast path of storage does
// not tell parents that it has ended.
func NewChild(graph *workflow.Graph, depth int16) Run {
	run := NewRun(graph)
	run.Depth, run.Slow = depth, true
	return run
}

// NeedsSlowPath reports whether runs of a graph may need Decide from the start:
// the fast path of storage knows neither sleeps, waits, child runs nor timers of the queue. Those
// of a map do once it has elements.
func NeedsSlowPath(graph *workflow.Graph) bool {
	for i := range graph.Nodes {
		if n := &graph.Nodes[i]; n.Kind != workflow.Func && n.Kind != workflow.Map || n.StartTimeout > 0 {
			return true
		}
	}
	return false
}

// TakesFastPath reports whether a success of which no condition says anything
// does nothing but complete its task, let those children begin whose last parent
// it was, and end the run with its last task: storage may then do without
// Decide. child returns the row of a child; all rows are as before the success.
func TakesFastPath(run Run, task Task, child func(step int32) Task) bool {
	if !run.Slow {
		return true
	}
	if run.Canceling || run.Failing || run.Unhandled || run.Cut || run.HandlerMade || task.StartTimeout > 0 || task.IsElement() ||
		task.Traits&(workflow.TraitMachine|workflow.TraitSpawned) != 0 ||
		run.Depth > 0 && len(task.Children) == 0 { // it may end the run, and the parent has to hear of that
		return false
	}
	return !slices.ContainsFunc(task.Children, func(edge workflow.Child) bool {
		c := child(edge.Step)
		return c.Flags&^FlagLive != 0 || c.StartTimeout > 0 || c.Traits&(workflow.TraitSleep|workflow.TraitSleepUntil|workflow.TraitWaits) != 0
	})
}
