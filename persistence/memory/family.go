package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// beginChild stores the child run of a step, for DrainIntake.
func (b *batch) beginChild(parent *run, step int32, child *persistence.Child) {
	b.s.submissions++
	b.s.submitted(b.s.submissions, persistence.Trigger{
		Run: child.Run, Definition: child.Definition, Workflow: child.Workflow, Tenant: parent.trigger.Tenant,
		Input: child.Input, Queue: parent.trigger.Queue, Labels: parent.trigger.Labels, TraceContext: child.TraceContext,
		Origin: persistence.OriginChild, Edges: child.Edges,
	}, b.now)
	r := b.s.runs[child.Run]
	r.family = persistence.Family{
		Parent:   workflow.TaskID{Run: parent.id(), Step: step},
		Abandons: parent.task(step).Traits.Has(workflow.TraitAbandons), Depth: parent.core.Depth + 1,
	}
	r.core = lifecycle.NewChild(r.definition.graph, r.family.Depth)
	r.keyRun = child.KeyRun
	if parent.children == nil {
		parent.children = map[int32]workflow.RunID{}
	}
	parent.children[step] = child.Run
	b.wake.Submitted = true
}

// tellFamily lets DrainIntake tell a parent that its child run has ended, and child runs that
// they are asked to stop.
func (b *batch) tellFamily(r *run, d *lifecycle.Decision) {
	if parent := r.family.Parent.Run; d.Ended && !parent.IsZero() {
		b.tell(parent)
	}
	for _, step := range d.Stopped {
		b.stopped = append(b.stopped, r.children[step])
	}
}

// tellStopped tells child runs that they are asked to stop, once all that a transaction decides is
// decided: those that have ended with it hear nothing.
func (b *batch) tellStopped() {
	for _, id := range b.stopped {
		if child := b.s.runs[id]; child != nil && !child.core.State.Terminal() {
			b.tell(id)
		}
	}
	b.stopped = nil
}

// tell lets DrainIntake look at a run.
func (b *batch) tell(id workflow.RunID) {
	b.s.submissions++
	b.s.submit(submission{number: b.s.submissions, id: id, signal: true})
	b.wake.Submitted = true
}

// familyFacts returns what a run has not heard of its child runs and of its parent.
func (s *Store) familyFacts(r *run) (facts []lifecycle.Fact) {
	for _, step := range slices.Sorted(maps.Keys(r.children)) {
		if t := r.task(step); t != nil && t.State == lifecycle.Waiting {
			if fact := s.childEnded(step, r.children[step]); fact.State != lifecycle.Running {
				facts = append(facts, fact)
			}
		}
	}
	if of := r.family.Parent; !of.Run.IsZero() && !r.family.Abandons {
		if parent := s.runs[of.Run]; parent == nil || parent.task(of.Step).State != lifecycle.Waiting {
			facts = append(facts, persistence.ParentCanceled())
		}
	}
	return facts
}

// childEnded returns how the child run of a step has ended; Running: it has not.
func (s *Store) childEnded(step int32, id workflow.RunID) lifecycle.ChildEnded {
	out := lifecycle.ChildEnded{Step: step, Run: id.String()}
	child := s.runs[id]
	if child == nil {
		return out
	}
	row := child.row()
	switch {
	case !row.State.Terminal():
		out.State = lifecycle.Running
	case row.State == lifecycle.Completed && !row.HasOutput:
		out.State = lifecycle.Skipped
	default:
		out.State, out.Failed, out.Class, out.Error = row.State, row.FailedStep, row.Class, row.Error
		if row.State == lifecycle.Canceled {
			out.Error = row.CancelReason
		}
	}
	return out
}

// give gives steps the outputs of their child runs.
func (b *batch) give(r *run, steps []int32) {
	for _, step := range steps {
		output := b.s.runs[r.children[step]].row().Output
		if of := r.detail(step); r.task(step).State == lifecycle.Completed {
			of.output = bytes.Clone(output)
		} else {
			of.progress = bytes.Clone(output)
		}
	}
}

// WakeParents implements persistence.Housekeeping.
func (s *Store) WakeParents(_ context.Context, epoch int64, after workflow.TaskID, limit int) (persistence.Woken, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Woken{}, persistence.ErrDeposed
	}
	out, looked := persistence.Woken{}, 0
	for _, id := range s.order {
		r := s.runs[id]
		for _, step := range slices.Sorted(maps.Keys(r.children)) {
			task := workflow.TaskID{Run: id, Step: step}
			if r.task(step).State != lifecycle.Waiting || compareTasks(task, after) <= 0 {
				continue
			}
			if looked == limit {
				out.Wake = b.wake
				return out, nil
			}
			looked++
			out.Next = task
			waits := slices.ContainsFunc(s.intake, func(sub submission) bool { return sub.signal && sub.id == id })
			if !waits && s.childEnded(step, r.children[step]).State != lifecycle.Running {
				b.tell(id)
				out.Count++
			}
		}
	}
	out.Next, out.Wake = workflow.TaskID{}, b.wake
	return out, nil
}
