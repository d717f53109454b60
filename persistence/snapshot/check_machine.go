package snapshot

import (
	"github.com/troupe-dev/troupe/lifecycle"
)

// covers reports whether events of a step, or of the run itself, may stand for those before them:
// of a machine each does, and of its run where the first ones were removed.
func (r *Run) covers(step int32) bool {
	return r.Graph.IsMachine() && (step == 0 || step == lifecycle.RunStep && r.Machine.Base > 0)
}

// trimmed reports whether a machine may have started a task of which no row is left.
func (r *Run) trimmed(step int32) bool {
	return r.Graph.IsMachine() && r.Machine.Base > 0 && step > r.Core.Steps && step <= r.Core.Steps+r.Core.Dynamic
}

// activating reports whether a machine may be in a state for which it has no event: its wake and
// its claim have none.
func activating(said, is lifecycle.State) bool {
	began := said == lifecycle.Waiting || said == lifecycle.Queued
	return began && (is == lifecycle.Queued || is == lifecycle.Running)
}

// machine checks what the run of a machine has: its task, and behind the number of steps what it
// has started and what was not removed; that entries have numbers of their own (I16), and that it
// waits only if it has handled all of them.
func (c *checker) machine(r *Run) {
	if r.Task(0) == nil {
		c.failf("I2: run %v of a machine has no machine", r.ID)
		return
	}
	last, seen := int64(0), map[int64]int32{}
	for _, e := range r.Events {
		if e.Step == 0 && e.N <= last {
			c.failf("I10: run %v: event %d of the machine comes behind event %d", r.ID, e.N, last)
		}
		if e.Step == 0 {
			last = e.N
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		n := t.Step - r.Core.Steps
		switch {
		case t.Step == 0:
		case !t.IsSpawned() || t.Dynamic.Owner != 0 || n < 1 || n > r.Core.Dynamic:
			c.failf("I18: run %v: step %d is nothing that the machine has started, which has started %d", r.ID, t.Step, r.Core.Dynamic)
		default:
			if _, as := lifecycle.SpawnedAs(t.Dynamic.Name); as != n {
				c.failf("I18: run %v: step %d is called %q", r.ID, t.Step, t.Dynamic.Name)
			}
		}
		if t.Entry == 0 || t.Entry < 0 && t.State.Terminal() {
			continue
		}
		if other, is := seen[t.Entry]; is || t.Entry < 0 || t.Entry > r.Core.Signals {
			c.failf("I16: run %v: steps %d and %d are entry %d of %d", r.ID, other, t.Step, t.Entry, r.Core.Signals)
		}
		seen[t.Entry] = t.Step
		if t.Step != 0 && !t.State.Terminal() {
			c.failf("I16: run %v: step %d is an entry and has not ended", r.ID, t.Step)
		}
	}
	if m := r.Task(0); m.State == lifecycle.Waiting && r.Machine.Taken != r.Core.Signals {
		c.failf("I16: run %v: the machine waits, and has handled %d of %d entries", r.ID, r.Machine.Taken, r.Core.Signals)
	}
}
