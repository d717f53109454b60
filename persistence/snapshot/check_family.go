package snapshot

import (
	"bytes"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// families checks that a child run exists if and only if the step that began it has waited, and
// that the step continues when the child has ended, as that did (I20).
func (c *checker) families() {
	children, told := map[workflow.TaskID]*Run{}, map[workflow.RunID]bool{}
	for _, id := range c.tables.Signaled {
		told[id] = true
	}
	for i := range c.tables.Runs {
		r := &c.tables.Runs[i]
		parent := r.Family.Parent
		if parent.Run.IsZero() {
			continue
		}
		if other := children[parent]; other != nil {
			c.failf("I20: runs %v and %v are children of run %v step %d", other.ID, r.ID, parent.Run, parent.Step)
		}
		children[parent] = r
		if p := c.runs[parent.Run]; p != nil {
			c.child(p, r, told)
		}
	}
	c.each(func(r *Run, t *Task) {
		if t.State == lifecycle.Waiting && t.Traits.Has(workflow.TraitChild) && children[workflow.TaskID{Run: r.ID, Step: t.Step}] == nil && !told[r.ID] {
			c.failf("I20: run %v step %d waits for a child run that does not exist", r.ID, t.Step)
		}
	})
}

// child checks a child run against the step that began it.
func (c *checker) child(parent, r *Run, told map[workflow.RunID]bool) {
	t := parent.Task(r.Family.Parent.Step)
	switch {
	case t == nil || !t.Traits.Has(workflow.TraitChild):
		c.failf("I20: run %v is a child of run %v step %d, which begins none", r.ID, parent.ID, r.Family.Parent.Step)
		return
	case r.Core.Depth != parent.Core.Depth+1 || r.Core.Depth > lifecycle.DepthMax:
		c.failf("I20: run %v has depth %d, its parent %d", r.ID, r.Core.Depth, parent.Core.Depth)
	case t.State != lifecycle.Waiting && !t.State.Terminal() && !t.Flags.Has(lifecycle.FlagKept):
		c.failf("I20: run %v exists, and the step that began it is %v", r.ID, t.State)
	}
	ended, abandoned := r.Core.State.Terminal(), t.State == lifecycle.Canceled
	switch {
	case t.State == lifecycle.Waiting && ended && !told[parent.ID]:
		c.failf("I20: run %v has ended, run %v waits for it, and nothing will tell it", r.ID, parent.ID)
	case !ended && t.State != lifecycle.Waiting && !abandoned:
		c.failf("I20: run %v is %v, and the step that waits for it is %v", r.ID, r.Core.State, t.State)
	case !ended && abandoned && !r.Family.Abandons && !r.Core.Canceling && !told[r.ID]:
		c.failf("I20: run %v continues, the step that waits for it was canceled, and nothing will tell it", r.ID)
	case t.State == lifecycle.Completed:
		if out := r.Task(r.Graph.Output); r.Core.State != lifecycle.Completed || out == nil || !bytes.Equal(out.Output, t.Output) {
			c.failf("I20: run %v is %v, and the step that waited for it completed with another output", r.ID, r.Core.State)
		}
	}
}
