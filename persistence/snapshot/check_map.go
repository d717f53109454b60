package snapshot

import (
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// isTaken reports whether a task is an element that an earlier run has completed.
func (t *Task) isTaken() bool {
	return t.IsElement() && t.Flags.Has(lifecycle.FlagKept) && t.State == lifecycle.Completed
}

// maps checks that each item of a map has at most one element, that no more are open than may be,
// and that what a map counts is so (I21).
func (c *checker) maps(r *Run) {
	elements := map[int32][]*Task{}
	items := map[string]bool{}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if !t.IsElement() {
			continue
		}
		elements[t.Dynamic.Owner] = append(elements[t.Dynamic.Owner], t)
		if name := t.Dynamic.Name; items[name] || lifecycle.ElementOf(name) < 0 {
			c.failf("I21: run %v has two elements %q, or that is no name of one", r.ID, name)
		}
		items[t.Dynamic.Name] = true
	}
	known := map[int32]bool{}
	for i := range r.Maps {
		known[r.Maps[i].Step] = true
		c.oneMap(r, &r.Maps[i], elements[r.Maps[i].Step])
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		isMap := t.Traits.Has(workflow.TraitMap) && !t.IsElement()
		switch {
		case isMap && t.Flags.Has(lifecycle.FlagSpread) != known[t.Step]:
			c.failf("I21: run %v step %d has begun its elements: %v, and counts them: %v", r.ID, t.Step, t.Flags.Has(lifecycle.FlagSpread), known[t.Step])
		case t.IsElement() && !t.isTaken() && !known[t.Dynamic.Owner]:
			c.failf("I21: run %v step %d is an element of step %d, which has begun none", r.ID, t.Step, t.Dynamic.Owner)
		}
	}
}

func (c *checker) oneMap(r *Run, m *lifecycle.Map, elements []*Task) {
	owner := r.Task(m.Step)
	if owner == nil || !owner.Traits.Has(workflow.TraitMap) || owner.IsElement() {
		c.failf("I21: run %v step %d counts elements and is not a map", r.ID, m.Step)
		return
	}
	var made, taken, open, ready, failed int32
	for _, t := range elements {
		item := lifecycle.ElementOf(t.Dynamic.Name)
		switch {
		case t.isTaken():
			if item < m.Items { // or the list that it was of had more
				taken++
			}
			continue
		case item >= m.From, item >= m.Items:
			c.failf("I21: run %v has element %q; %d of %d items have one", r.ID, t.Dynamic.Name, m.From, m.Items)
		case !t.State.Terminal():
			open++
			if t.State != lifecycle.Running {
				ready++
			}
		case t.State != lifecycle.Completed:
			failed++
		}
		made++
	}
	breaks := m.Failed > m.Allowed
	switch {
	case open > m.Window:
		c.failf("I21: run %v step %d has %d open elements: at most %d may be", r.ID, m.Step, open, m.Window)
	case owner.State != lifecycle.Waiting && owner.State != lifecycle.Canceled && open > 0:
		c.failf("I21: run %v step %d is %v and has %d open elements", r.ID, m.Step, owner.State, open)
	case owner.State == lifecycle.Completed && (m.Left > 0 || breaks):
		c.failf("I21: run %v step %d has completed, %d items have no element, and %d elements failed, where %d may", r.ID, m.Step, m.Left, m.Failed, m.Allowed)
	case open != m.Open || failed != m.Failed || made+m.Left+taken != m.Items:
		c.failf("I21: run %v step %d counts %d open, %d failed, %d to come of %d; it has %d, %d, %d made, %d taken over", r.ID, m.Step,
			m.Open, m.Failed, m.Left, m.Items, open, failed, made, taken)
	case owner.State != lifecycle.Waiting: // no more begin
	case open == 0:
		c.failf("I21: run %v step %d waits, and no element is open", r.ID, m.Step)
	case !breaks && m.Left > 0 && open < m.Window:
		c.failf("I21: run %v step %d has %d open elements, %d may be, and %d are to come", r.ID, m.Step, open, m.Window, m.Left)
	case breaks && ready > 0:
		c.failf("I21: run %v step %d fails with its elements, and %d of them are still to be executed", r.ID, m.Step, ready)
	case breaks != (owner.Class == lifecycle.ClassElementFailed):
		c.failf("I21: run %v step %d: %d elements failed, %d may, and its error is %q", r.ID, m.Step, m.Failed, m.Allowed, owner.Error)
	}
}
