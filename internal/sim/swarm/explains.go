package swarm

import (
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// explains judges that every task of a run that has not ended waits for
// something: one for which no reason is found will never move.
func (o *oracle) explains(run *snapshot.Run) {
	w := o.seed.world
	situation, err := w.Model().Situation(o.seed.ctx, "", run.ID)
	if err != nil {
		w.Fail("I1", "%s cannot be explained: %v", o.seed.nameOf(run.ID), err)
		return
	}
	open := 0 // without elements and what a machine has started, which the reason of their owner counts
	for i := range run.Tasks {
		if t := &run.Tasks[i]; !t.State.Terminal() && !t.IsElement() && !t.IsSpawned() {
			open++
		}
	}
	whole := run.Core.State.Terminal() || run.Core.State == lifecycle.Pending || !run.Expanded
	reasons := explain.Explain(situation)
	explained := 0
	for _, r := range reasons {
		_, n := lifecycle.SpawnedAs(r.Step)
		if lifecycle.ElementOf(r.Step) < 0 && !(run.Graph.IsMachine() && n > 0) {
			explained++
		}
	}
	if !whole && explained != open {
		w.Fail("I1", "%s has %d tasks that have not ended, and %d reasons", o.seed.nameOf(run.ID), open, explained)
	}
	for _, r := range reasons {
		if r.Cause == explain.CauseNone {
			w.Fail("I1", "%s: %s", o.seed.nameOf(run.ID), r)
			return
		}
	}
}
