package swarm

import (
	"bytes"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// elementOf returns an element by its name; nil: there is none.
func elementOf(run *snapshot.Run, name string) *snapshot.Task {
	for i := range run.Tasks {
		if t := &run.Tasks[i]; t.IsElement() && t.Dynamic.Name == name {
			return t
		}
	}
	return nil
}

// mapMoved judges an event of a map.
func (o *oracle) mapMoved(run *snapshot.Run, was *seen, e *lifecycle.Event) {
	s, a := o.seed, &o.book.runs[run.ID].tasks[e.Step]
	m := mapIn(run, e.Step)
	switch e.Kind { //nolint:exhaustive // the others say nothing of elements
	case lifecycle.EventWaiting:
		was.split[e.Step] = a.pod
		if !was.cancel.IsZero() || was.failing && !run.Task(e.Step).Traits.Has(workflow.TraitHoldsSettled) {
			s.world.Fail("I21", "%s step %d begins elements, and its run was stopping before", s.nameOf(run.ID), e.Step)
		}
	case lifecycle.EventCompleted:
		if m == nil {
			return
		}
		if pod, ok := was.split[e.Step]; ok && pod != a.pod {
			s.saw(SawMapElsewhere)
		}
		if m.Failed > 0 {
			s.saw(SawMapTolerated)
		}
		o.executedAll(run, e.Step, m)
	case lifecycle.EventFailed:
		if e.Class == lifecycle.ClassElementFailed {
			s.saw(SawMapBroke)
			if m == nil || m.Failed <= m.Allowed {
				s.world.Fail("I21", "%s step %d failed with its elements: %+v", s.nameOf(run.ID), e.Step, m)
			}
		}
	}
}

// mapIn returns how far a map has come; nil: it has begun no elements.
func mapIn(run *snapshot.Run, step int32) *lifecycle.Map {
	for i := range run.Maps {
		if run.Maps[i].Step == step {
			return &run.Maps[i]
		}
	}
	return nil
}

// executedAll judges that the function of each item of a map that completes has been executed, under
// one key, or that its element has failed.
func (o *oracle) executedAll(run *snapshot.Run, step int32, m *lifecycle.Map) {
	s, f := o.seed, o.families
	for item := range m.Items {
		name := lifecycle.ElementName(m.Name, item)
		element := elementOf(run, name)
		switch {
		case element == nil || !element.State.Terminal():
			s.world.Fail("I21", "%s step %d completed, and item %d has no element that ended", s.nameOf(run.ID), step, item)
		case element.State == lifecycle.Completed && len(s.effects[f.keys[f.lineage[run.ID]+"/"+name]]) == 0:
			s.world.Fail("I1", "%s/%s completed and was never executed", s.nameOf(run.ID), name)
		}
	}
}

// elementMoved judges an event of an element.
func (o *oracle) elementMoved(run *snapshot.Run, e *lifecycle.Event) {
	s, t := o.seed, run.Task(e.Step)
	m := mapIn(run, t.Dynamic.Owner)
	switch {
	case e.Kind == lifecycle.EventLost:
		s.saw(SawElementLost)
	case e.N == 1 && e.Kind == lifecycle.EventQueued && m != nil && lifecycle.ElementOf(t.Dynamic.Name) >= m.Window && m.Open == m.Window:
		s.saw(SawWindowMoved)
	case e.Kind == lifecycle.EventCanceled && e.By == lifecycle.ClassElementFailed && e.Pod != 0:
		s.saw(SawElementStopped)
	}
}

// takenOver judges the elements of a run that continues another: those that had completed.
func (o *oracle) takenOver(run, old *snapshot.Run) {
	for i := range old.Tasks {
		t := &old.Tasks[i]
		if !t.IsElement() || t.State != lifecycle.Completed || o.runsAgain(run, old, t) {
			continue
		}
		taken := elementOf(run, t.Dynamic.Name)
		if taken == nil || taken.State != lifecycle.Completed || !bytes.Equal(taken.Output, t.Output) {
			o.seed.world.Fail("I21", "%s does not take over %s, which had completed", o.seed.nameOf(run.ID), t.Dynamic.Name)
			return
		}
		o.seed.saw(SawElementsTaken)
	}
	for i := range run.Tasks {
		t := &run.Tasks[i]
		if before := elementOf(old, name(t)); t.IsElement() && (before == nil || before.State != lifecycle.Completed) {
			o.seed.world.Fail("I21", "%s takes over %s, which had not completed", o.seed.nameOf(run.ID), t.Dynamic.Name)
		}
	}
}

func name(t *snapshot.Task) string {
	if t.Dynamic == nil {
		return ""
	}
	return t.Dynamic.Name
}

// runsAgain reports whether nothing of the map of an element is taken over: it has completed, or what
// gives its list runs again.
func (o *oracle) runsAgain(run, old *snapshot.Run, element *snapshot.Task) bool {
	owner := element.Dynamic.Owner
	letter := o.seed.client.orders[o.seed.names[run.ID]].letter
	return letter != owner && old.Task(owner).State == lifecycle.Completed || anyAgain(old, owner, letter)
}

// anyAgain reports whether a requeue from a dead letter executes a task again that comes before a step.
func anyAgain(old *snapshot.Run, step, letter int32) bool {
	for i := range old.Graph.Nodes {
		before := slices.ContainsFunc(old.Graph.Nodes[i].Children, func(c workflow.Child) bool { return c.Step == step })
		if before && (int32(i) == letter || !completed(old, int32(i)) || anyAgain(old, int32(i), letter)) {
			return true
		}
	}
	return false
}

// completed reports whether a task has completed, and so have the dynamic tasks that it made.
func completed(run *snapshot.Run, step int32) bool {
	done := run.Task(step).State == lifecycle.Completed
	for i := range run.Tasks {
		if t := &run.Tasks[i]; t.Dynamic != nil && !t.IsElement() && t.Dynamic.Owner == step {
			done = done && completed(run, t.Step)
		}
	}
	return done
}

// window counts the elements of a map whose functions are executed for attempts that still hold their
// tasks.
func (o *oracle) window(about *actors.TaskInfo) {
	s := o.seed
	run, ok := s.world.Model().RunSnapshot(about.Run)
	if !ok {
		return
	}
	of := func(step string) (owner int32) {
		if t := elementOf(&run, step); t != nil && t.State == lifecycle.Running {
			return t.Dynamic.Owner
		}
		return -1
	}
	owner, running := of(about.Step), map[string]bool{about.Step: true}
	for _, e := range s.executing {
		if e.run == about.Run && e.ctx.Err() == nil && of(e.step) == owner {
			running[e.step] = true
		}
	}
	if m := mapIn(&run, owner); owner >= 0 && (m == nil || len(running) > int(m.Window)) {
		s.world.Fail("I21", "%s step %d: the functions of %d elements are executed at once; %+v", s.nameOf(about.Run), owner, len(running), m)
	}
}

// gathers judges what a map gathers: how its elements have ended, as it is stored, by item.
func (o *oracle) gathers(about *actors.TaskInfo, elements *actors.Elements) {
	s := o.seed
	run, ok := s.world.Model().RunSnapshot(about.Run)
	if !ok {
		s.world.Fail("I2", "%v is executed and does not exist", about.Run)
		return
	}
	for item := range elements.Len() {
		got, stored := elements.At(item), elementOf(&run, lifecycle.ElementName(about.Step, int32(item)))
		if stored == nil || got.State != stored.State || !bytes.Equal(got.Output, stored.Output) && got.State == lifecycle.Completed {
			s.world.Fail("I21", "%s/%s got of item %d %v %q; stored is %+v", s.nameOf(about.Run), about.Step, item, got.State, got.Output, stored)
			return
		}
	}
	if elements.Len() > elementsPage {
		s.saw(SawElementPages)
	}
}
