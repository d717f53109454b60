package snapshot

import (
	"bytes"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// inbox checks that each signal that was delivered has a number of its own, and that each step
// which waits for a signal has taken one before it went on, and no more (I19).
func (c *checker) inbox() {
	numbers, takers := map[workflow.RunID][]int64{}, map[workflow.TaskID]*Entry{}
	waiting := map[workflow.RunID]bool{}
	for _, id := range c.tables.Signaled {
		waiting[id] = true
	}
	for i := range c.tables.Inbox {
		e := &c.tables.Inbox[i]
		switch {
		case c.runs[e.Run] == nil:
			continue
		case e.N > 0:
			numbers[e.Run] = append(numbers[e.Run], e.N)
		case !waiting[e.Run]:
			c.failf("I19: run %v: signal %s is not delivered, and nothing will do so", e.Run, e.ID)
		}
		if e.Step < 0 {
			continue
		}
		task := workflow.TaskID{Run: e.Run, Step: e.Step}
		if takers[task] != nil {
			c.failf("I19: run %v step %d has taken signals %s and %s", e.Run, e.Step, takers[task].ID, e.ID)
		}
		takers[task] = e
		if t := c.runs[e.Run].Task(e.Step); t != nil && t.Signal != e.Name {
			c.failf("I19: run %v step %d waits for %q and has taken %q", e.Run, e.Step, t.Signal, e.Name)
		}
	}
	for id, ns := range numbers {
		slices.Sort(ns)
		if c.runs[id].Graph.IsMachine() { // the ends of what it has started have numbers, too
			if len(slices.Compact(slices.Clone(ns))) < len(ns) || ns[len(ns)-1] > c.runs[id].Core.Signals {
				c.failf("I16: run %v counts %d entries, and its signals have the numbers %v", id, c.runs[id].Core.Signals, ns)
			}
			continue
		}
		if first, last := ns[0], ns[len(ns)-1]; first != 1 || last != int64(len(ns)) || last != c.runs[id].Core.Signals {
			c.failf("I19: run %v counts %d signals and has the numbers %v", id, c.runs[id].Core.Signals, ns)
		}
	}
	c.each(func(r *Run, t *Task) { c.taken(r, t, takers[workflow.TaskID{Run: r.ID, Step: t.Step}]) })
}

// taken checks a step that waits for a signal against the one that it has taken.
func (c *checker) taken(r *Run, t *Task, took *Entry) {
	if !t.Traits.Has(workflow.TraitWaits) {
		return
	}
	switch t.State {
	case lifecycle.Queued, lifecycle.Running, lifecycle.Completed:
		if took == nil {
			c.failf("I19: run %v step %d is %v and has taken no signal", r.ID, t.Step, t.State)
		} else if t.State == lifecycle.Completed && took.Payload != nil && !bytes.Equal(t.Output, took.Payload) {
			c.failf("I19: run %v step %d completed with another payload than that of its signal", r.ID, t.Step)
		}
	case lifecycle.Waiting:
		for i := range c.tables.Inbox {
			if e := &c.tables.Inbox[i]; e.Run == r.ID && e.N > 0 && e.Step < 0 && e.Name == t.Signal {
				c.failf("I19: run %v step %d waits for %q, which is there", r.ID, t.Step, t.Signal)
			}
		}
	case lifecycle.Pending, lifecycle.Backoff, lifecycle.Sleeping, lifecycle.Failed, lifecycle.Skipped, lifecycle.Canceled:
	}
}
