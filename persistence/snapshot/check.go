package snapshot

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Check lists what is wrong with a state of a store; nothing if the promises
// hold that one state can show:
//
//	I2   no run has a task that its graph does not have and no task of it asked for
//	I3   a task completes at most once, and only a completed one has an output
//	I5   a task has begun only if its parents have ended and their edges allow
//	     it, and became ready once
//	I6   a run is terminal exactly when all of its tasks are
//	I7   a timer fired once
//	I10  the events of each task and run are gapless and lead to its state
//	I19  a signal that was stored is delivered or will be, and taken at most once
//	I20  a child run exists if its parent waits or has waited for it, and its end is told once
//	I21  no more elements of a map are open than may be, and each item has one
//
// and if the side tables agree with the tasks: a queued task has one place in
// the queues, a sleeping or waiting one its timer, a running one its claim.
// t is sorted.
func Check(t Tables) []string {
	c := checker{tables: t, runs: map[workflow.RunID]*Run{}}
	for i := range t.Runs {
		c.runs[t.Runs[i].ID] = &t.Runs[i]
	}
	for i := range t.Runs {
		c.run(&t.Runs[i])
	}
	c.queue()
	c.timers()
	c.claims()
	c.names()
	c.dead()
	c.inbox()
	c.families()
	return c.wrong
}

// CheckRun is Check for one run by itself.
func CheckRun(r *Run) []string {
	c := checker{}
	c.run(r)
	return c.wrong
}

type checker struct {
	tables Tables
	runs   map[workflow.RunID]*Run
	wrong  []string
}

func (c *checker) failf(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// Task returns the task of a step, or nil.
func (r *Run) Task(step int32) *Task {
	at, there := r.at(step)
	if !there {
		return nil
	}
	return &r.Tasks[at]
}

func (r *Run) at(step int32) (at int, there bool) {
	return slices.BinarySearchFunc(r.Tasks, step, func(t Task, step int32) int { return int(t.Step) - int(step) })
}

func (c *checker) run(r *Run) {
	kinds := map[int32][]lifecycle.EventKind{}
	for _, e := range r.Events {
		kinds[e.Step] = append(kinds[e.Step], e.Kind)
		if e.N != int64(len(kinds[e.Step])) && !r.covers(e.Step) {
			c.failf("I10: run %v step %d: event %d (%v) stands at place %d", r.ID, e.Step, e.N, e.Kind, len(kinds[e.Step]))
		}
	}
	own := slices.DeleteFunc(slices.Clone(kinds[lifecycle.RunStep]), func(k lifecycle.EventKind) bool { return k == lifecycle.EventTrimmed })
	if got := lifecycle.Fold(own); got != r.Core.State {
		c.failf("I10: run %v is %v; its events say %v", r.ID, r.Core.State, got)
	}
	if got := int64(len(kinds[lifecycle.RunStep])); got != r.Core.Events && !r.covers(lifecycle.RunStep) {
		c.failf("I10: run %v counts %d events and has %d", r.ID, r.Core.Events, got)
	}
	if len(kinds) > len(r.Tasks)+1 && !r.Graph.IsMachine() {
		c.failf("I10: run %v has events of steps it does not have", r.ID)
	}
	if !r.Expanded {
		if slices.ContainsFunc(r.Tasks, func(t Task) bool { return !t.isTaken() && !t.IsSpawned() }) {
			c.failf("I2: run %v is not expanded and has tasks", r.ID)
		}
		return
	}
	if r.Graph.IsMachine() {
		c.machine(r)
	} else if !c.numbers(r) {
		return
	}
	for i := range r.Tasks {
		c.task(r, &r.Tasks[i], kinds[r.Tasks[i].Step])
	}
	c.parents(r)
	c.maps(r)
	c.end(r)
}

// numbers checks that a run has a task for each step of its graph, one for its failure
// handler if that was made, and behind its number the dynamic ones, each with an owner that
// asked for it when it completed.
func (c *checker) numbers(r *Run) bool {
	want := r.Core.Steps
	if r.Core.HandlerMade {
		want++
	}
	if int32(len(r.Tasks)) != want+r.Core.Dynamic {
		c.failf("I2: run %v has %d tasks of %d steps, and %d dynamic ones, handler made: %v", r.ID, len(r.Tasks), r.Core.Steps, r.Core.Dynamic, r.Core.HandlerMade)
		return false
	}
	for i := range r.Tasks {
		t, step := &r.Tasks[i], int32(i)
		if step >= want {
			step += r.Core.Steps + 1 - want
		}
		if t.Step != step || (t.Dynamic != nil) != (step > r.Core.Steps) {
			c.failf("I2: run %v: the task at place %d is step %d, dynamic: %v", r.ID, i, t.Step, t.Dynamic)
			return false
		}
		if t.Dynamic == nil {
			continue
		}
		if t.IsElement() {
			continue // maps
		}
		if owner := r.Task(t.Dynamic.Owner); owner == nil || owner.Step >= t.Step || owner.State != lifecycle.Completed {
			c.failf("I2: run %v: step %d belongs to step %d, which has not completed", r.ID, t.Step, t.Dynamic.Owner)
		}
	}
	return true
}

func (c *checker) task(r *Run, t *Task, kinds []lifecycle.EventKind) {
	if got := lifecycle.Fold(kinds); got != t.State && !(t.Traits.Has(workflow.TraitMachine) && activating(got, t.State)) {
		c.failf("I10: run %v step %d is %v; its events say %v", r.ID, t.Step, t.State, got)
	}
	if got := int64(len(kinds)); got != t.Epoch && !r.covers(t.Step) {
		c.failf("I10: run %v step %d has epoch %d and %d events", r.ID, t.Step, t.Epoch, got)
	}
	count := map[lifecycle.EventKind]int{}
	for i, k := range kinds {
		count[k]++
		if k == lifecycle.EventActivated {
			count[lifecycle.EventLost] = 0
		}
		if k.Next().Terminal() && i < len(kinds)-1 {
			c.failf("I6: run %v step %d went on after it was %v", r.ID, t.Step, k)
		}
	}
	if count[lifecycle.EventCompleted] > 1 {
		c.failf("I3: run %v step %d completed %d times", r.ID, t.Step, count[lifecycle.EventCompleted])
	}
	if count[lifecycle.EventWoken] > 1 {
		c.failf("I7: run %v step %d woke %d times", r.ID, t.Step, count[lifecycle.EventWoken])
	}
	// A backoff that ends is queued again, and so is a map whose elements have ended, and a step
	// whose child run has ended if conditions look at it; whatever is left is becoming ready.
	became := count[lifecycle.EventQueued] - count[lifecycle.EventRetrying]
	if t.Flags.Has(lifecycle.FlagSpread) || t.Traits.Has(workflow.TraitChild|workflow.TraitJudged) && t.Flags.Has(lifecycle.FlagKept) {
		became -= count[lifecycle.EventWaiting]
	}
	if became > 1 {
		c.failf("I5: run %v step %d became ready %d times", r.ID, t.Step, became)
	}
	if got := int(t.Lost); count[lifecycle.EventLost] > got {
		c.failf("run %v step %d counts %d losses and has %d", r.ID, t.Step, got, count[lifecycle.EventLost])
	}
	if t.Output != nil && t.State != lifecycle.Completed {
		c.failf("I3: run %v step %d is %v and has an output", r.ID, t.Step, t.State)
	}
}

// parents checks each task against how its parents have ended.
func (c *checker) parents(r *Run) {
	open := make([]int32, len(r.Tasks))
	flags := make([]lifecycle.Flags, len(r.Tasks))
	for i := range r.Tasks {
		t := &r.Tasks[i]
		for _, edge := range t.Children {
			switch {
			case r.Task(edge.Step) == nil:
				c.failf("run %v step %d has no child %d", r.ID, t.Step, edge.Step)
			case t.State.Terminal():
				at, _ := r.at(edge.Step)
				flags[at] |= lifecycle.EdgeFlags(edge, t.State)
			default:
				at, _ := r.at(edge.Step)
				open[at]++
			}
		}
	}
	// A run canceled before it began ends all of its tasks at once.
	began := r.Core.State != lifecycle.Canceled || len(r.Events) == 0 || hasEvent(r, lifecycle.EventRunStarted)
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Pending != open[i] && began {
			c.failf("I5: run %v step %d waits for %d parents; %d have not ended", r.ID, t.Step, t.Pending, open[i])
		}
		if t.State == lifecycle.Pending {
			if open[i] == 0 && r.Core.State != lifecycle.Pending {
				c.failf("I1: run %v step %d is pending and nothing is left to wait for", r.ID, t.Step)
			}
			continue
		}
		if open[i] > 0 && began {
			c.failf("I5: run %v step %d is %v before its parents ended", r.ID, t.Step, t.State)
		}
		verdict := lifecycle.DecideVerdict(flags[i], t.Traits, t.Parents)
		if active(t.State) && verdict != lifecycle.VerdictRun {
			c.failf("I5: run %v step %d is %v; its parents do not let it run", r.ID, t.Step, t.State)
		}
	}
}

// active reports whether a task in this state was allowed to begin.
func active(s lifecycle.State) bool {
	switch s {
	case lifecycle.Queued, lifecycle.Running, lifecycle.Backoff, lifecycle.Sleeping, lifecycle.Waiting, lifecycle.Completed:
		return true
	case lifecycle.Pending, lifecycle.Failed, lifecycle.Skipped, lifecycle.Canceled:
	}
	return false
}

func hasEvent(r *Run, kind lifecycle.EventKind) bool {
	for _, e := range r.Events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// end checks the state of a run against that of its tasks.
func (c *checker) end(r *Run) {
	var open, sinks int32
	for i := range r.Tasks {
		if !r.Tasks[i].State.Terminal() {
			open++
			if len(r.Tasks[i].Children) == 0 {
				sinks++
			}
		}
	}
	if terminal := r.Core.State.Terminal(); terminal != (open == 0) {
		c.failf("I6: run %v is %v and %d of its tasks are open", r.ID, r.Core.State, open)
	}
	if r.Core.Remaining != sinks {
		c.failf("I6: run %v counts %d open obligations and has %d", r.ID, r.Core.Remaining, sinks)
	}
	failed := false
	for i := range r.Tasks {
		failed = failed || r.Tasks[i].State == lifecycle.Failed && !r.Tasks[i].IsElement() && !r.Tasks[i].IsSpawned() && !lifecycle.Handled(r.Tasks[i].Children)
	}
	if r.Core.State.Terminal() && failed != (r.Core.State == lifecycle.Failed) {
		c.failf("run %v is %v; an unhandled failure exists: %v", r.ID, r.Core.State, failed)
	}
}
