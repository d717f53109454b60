package snapshot

import (
	"bytes"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
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
	case r.Family.Abandons != t.Traits.Has(workflow.TraitAbandons):
		c.failf("I20: run %v is abandoned: %v, and the step that began it says otherwise", r.ID, r.Family.Abandons)
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
	case stoppedByParent(r) && (r.Family.Abandons || t.State != lifecycle.Canceled):
		c.failf("I20: run %v was asked to stop, and the step that began it is %v", r.ID, t.State)
	case ended && !t.Traits.Has(workflow.TraitJudged) && t.State.Terminal() && !abandoned && t.State != endOf(r):
		c.failf("I20: run %v is %v, and the step that waited for it is %v", r.ID, r.Core.State, t.State)
	case t.State == lifecycle.Completed:
		if out := r.Task(r.Graph.Output); r.Core.State != lifecycle.Completed || out == nil || !bytes.Equal(out.Output, t.Output) {
			c.failf("I20: run %v is %v, and the step that waited for it completed with another output", r.ID, r.Core.State)
		}
	}
}

// stoppedByParent reports whether a run was asked to stop because the step that began it was canceled.
func stoppedByParent(r *Run) bool {
	return slices.ContainsFunc(r.Events, func(e lifecycle.Event) bool {
		return e.Kind == lifecycle.EventCancelRequested && e.By == persistence.ParentCanceled().By
	})
}

// endOf returns how a step ends that waits for a run which has ended.
func endOf(r *Run) lifecycle.State {
	if r.Core.State != lifecycle.Completed {
		return lifecycle.Failed
	}
	if out := r.Task(r.Graph.Output); out == nil || out.State != lifecycle.Completed {
		return lifecycle.Skipped
	}
	return lifecycle.Completed
}
