package swarm

import (
	"bytes"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// families is what the oracle knows of child runs, from the events of both sides.
type families struct {
	ofStep  map[workflow.TaskID]*child
	ofRun   map[workflow.RunID]*child
	open    []*child // of which one side may still have to hear something
	lineage map[workflow.RunID]string
	keys    map[string]string // idempotency keys by what is executed
	named   map[string]string // the other way round
}

// child is a child run and the step that began it.
type child struct {
	run       workflow.RunID
	parent    workflow.TaskID
	abandoned bool            // by its declaration
	waits     bool            // the step waits
	stored    bool            // the run was seen
	end       lifecycle.State // how the run ended; 0: it has not
	heard     bool            // the step has taken that end
	stopped   bool            // the step was canceled while it waited
	canceling bool            // the run was asked to stop
	byParent  bool            // because of that
	begun     bool            // the run began
	told      bool            // the end was to be told
	untold    bool            // a fault has taken the word of the end away
}

func newFamilies() *families {
	return &families{
		ofStep: map[workflow.TaskID]*child{}, ofRun: map[workflow.RunID]*child{}, lineage: map[workflow.RunID]string{},
		keys: map[string]string{}, named: map[string]string{},
	}
}

// tables is everything that the store keeps. What a fault has taken away counts as there.
func (o *oracle) tables() snapshot.Tables {
	tables := o.seed.world.Model().Snapshot()
	for _, c := range o.families.open {
		if c.untold {
			tables.Signaled = append(tables.Signaled, c.parent.Run)
		}
	}
	return tables
}

// family notes a new run that no trigger of the load stored: a child run, or one that continues
// another. It reports whether it is one.
func (o *oracle) family(run *snapshot.Run) bool {
	s, f := o.seed, o.families
	f.lineage[run.ID] = run.ID.String()
	of := run.Family.Parent
	if of.Run.IsZero() {
		old, ok := o.continued(run)
		if ok {
			f.lineage[run.ID] = f.lineage[old.ID]
			o.takenOver(run, &old)
		}
		return ok
	}
	parent, ok := s.world.Model().RunSnapshot(of.Run)
	task := parent.Task(of.Step)
	c := f.ofStep[of]
	switch {
	case !ok || task == nil || !task.Traits.Has(workflow.TraitChild):
		s.world.Fail("I20", "run %v is a child of %s step %d, which begins none", run.ID, s.nameOf(of.Run), of.Step)
		return true
	case c != nil && c.run != run.ID:
		s.world.Fail("I20", "runs %v and %v are children of %s step %d", c.run, run.ID, s.nameOf(of.Run), of.Step)
		return true
	}
	c = o.childOf(of, run.ID)
	c.stored, c.abandoned = true, task.Traits.Has(workflow.TraitAbandons)
	f.lineage[run.ID] = f.lineage[of.Run] + "/" + nodeOf(&parent, of.Step).Name
	if run.Core.Depth == 3 {
		s.saw(SawDepth)
	}
	node, input := nodeOf(&parent, of.Step), task.Item
	if len(node.Parents) > 0 {
		input = parent.Task(node.Parents[0]).Output
	}
	s.client.born(run, of.Run, node.Name, input)
	return true
}

// continued returns the run that another one continues; false: it is none that does.
func (o *oracle) continued(run *snapshot.Run) (old snapshot.Run, ok bool) {
	order := o.seed.client.orders[o.seed.names[run.ID]]
	if order == nil || order.run != run.ID || order.continues.IsZero() {
		return old, false
	}
	return o.seed.world.Model().RunSnapshot(order.continues)
}

// childOf returns what is known of the child run of a step.
func (o *oracle) childOf(of workflow.TaskID, run workflow.RunID) *child {
	f := o.families
	if f.ofStep[of] == nil {
		c := &child{run: run, parent: of}
		f.ofStep[of], f.ofRun[run] = c, c
		f.open = append(f.open, c)
	}
	return f.ofStep[of]
}

// parentMoved judges an event of a step that runs another workflow.
func (o *oracle) parentMoved(run *snapshot.Run, was *seen, e *lifecycle.Event) {
	s, of := o.seed, workflow.TaskID{Run: run.ID, Step: e.Step}
	c := o.families.ofStep[of]
	switch {
	case e.Kind == lifecycle.EventWaiting:
		id, err := workflow.ParseRunID(e.By)
		if err != nil || c != nil && (c.run != id || c.waits) {
			s.world.Fail("I20", "%s step %d waits for run %s, and it had a child run before", s.nameOf(run.ID), e.Step, e.By)
			return
		}
		if !was.cancel.IsZero() || was.failing {
			s.world.Fail("I20", "%s step %d begins a child run, and its run was stopping before", s.nameOf(run.ID), e.Step)
		}
		o.childOf(of, id).waits = true
	case c == nil || !c.waits:
		o.parentMovedFirst(run, e, c)
	case e.Kind == lifecycle.EventCanceled:
		c.waits, c.stopped = false, true
	default:
		c.waits, c.heard = false, true
		o.heard(run, e, c)
	}
}

// parentMovedFirst judges an event of such a step that waits for nothing: it has not begun its
// child run, or has heard of the end.
func (o *oracle) parentMovedFirst(run *snapshot.Run, e *lifecycle.Event, c *child) {
	s := o.seed
	switch {
	case c == nil && e.Kind == lifecycle.EventLost:
		s.saw(SawYieldCrash)
	case c == nil && e.Kind == lifecycle.EventCompleted: // with the output of an earlier run
		old, ok := o.continued(run)
		if !ok || old.Task(e.Step) == nil || !bytes.Equal(old.Task(e.Step).Output, run.Task(e.Step).Output) {
			s.world.Fail("I20", "%s step %d completed without a child run", s.nameOf(run.ID), e.Step)
		}
	case c != nil && e.Kind == lifecycle.EventCompleted:
		s.saw(SawChildJudged)
		o.sameOutput(run, e, c, run.Task(e.Step).Output)
	}
}

// heard judges what a step makes of the end of its child run.
func (o *oracle) heard(run *snapshot.Run, e *lifecycle.Event, c *child) {
	s, t := o.seed, run.Task(e.Step)
	child, ok := s.world.Model().RunSnapshot(c.run)
	if !ok || !child.Core.State.Terminal() {
		s.world.Fail("I20", "%s step %d moves, and its child run has not ended: %v", s.nameOf(run.ID), e.Step, e.Kind)
		return
	}
	fits := false
	switch e.Kind { //nolint:exhaustive // the others are no answer to an end
	case lifecycle.EventCompleted:
		o.sameOutput(run, e, c, t.Output)
		fits = true
	case lifecycle.EventQueued:
		fits = child.Core.State == lifecycle.Completed && t.Traits.Has(workflow.TraitJudged)
		if t.State == lifecycle.Queued {
			o.sameOutput(run, e, c, t.Progress)
		}
	case lifecycle.EventSkipped:
		out := child.Task(child.Graph.Output)
		fits = child.Core.State == lifecycle.Completed && (out == nil || out.State != lifecycle.Completed)
		s.saw(SawChildSkips)
	case lifecycle.EventFailed:
		fits = child.Core.State == lifecycle.Failed && e.Class == lifecycle.ClassChildFailed ||
			child.Core.State == lifecycle.Canceled && e.Class == lifecycle.ClassChildCanceled
		s.saw(SawChildFails)
		if child.Core.State == lifecycle.Canceled {
			s.saw(SawChildAlone)
		}
	}
	if !fits {
		s.world.Fail("I20", "%s is %v, and the step that waited for it %v %s", s.nameOf(c.run), child.Core.State, e.Kind, e.Class)
	}
}

// sameOutput judges that a step has the output of its child run.
func (o *oracle) sameOutput(run *snapshot.Run, e *lifecycle.Event, c *child, output []byte) {
	child, ok := o.seed.world.Model().RunSnapshot(c.run)
	if !ok || child.Core.State != lifecycle.Completed || !bytes.Equal(child.Task(child.Graph.Output).Output, output) {
		o.seed.world.Fail("I20", "%s step %d has another output than its child run: %q", o.seed.nameOf(run.ID), e.Step, output)
	}
}

// childStops judges that a child run is asked to stop.
func (o *oracle) childStops(run *snapshot.Run, e *lifecycle.Event) {
	c := o.families.ofRun[run.ID]
	if c == nil {
		return
	}
	c.canceling = true
	if e.By != persistence.ParentCanceled().By {
		return
	}
	c.byParent = true
	switch parent, ok := o.seed.world.Model().RunSnapshot(c.parent.Run); {
	case c.abandoned:
		o.seed.world.Fail("I20", "%s is abandoned, and was canceled with its parent", o.seed.nameOf(run.ID))
	case ok && parent.Task(c.parent.Step).State != lifecycle.Canceled:
		o.seed.world.Fail("I20", "%s was canceled with its parent, which was not", o.seed.nameOf(run.ID))
	}
}

// childEnded notes how a run ended that may be a child.
func (o *oracle) childEnded(run *snapshot.Run) {
	c := o.families.ofRun[run.ID]
	if c == nil {
		return
	}
	s := o.seed
	c.end = run.Core.State
	c.begun = slices.ContainsFunc(run.Events, func(e lifecycle.Event) bool { return e.Kind == lifecycle.EventRunStarted })
	switch {
	case !c.begun:
		s.saw(SawChildUnbegun)
	case c.byParent && c.end == lifecycle.Canceled:
		s.saw(SawChildStopped)
	}
}

// told judges, after a transaction, that both sides of each family hear what they have to.
func (o *oracle) told() {
	s, f := o.seed, o.families
	f.open = slices.DeleteFunc(f.open, func(c *child) bool {
		switch {
		case !c.stored && c.stopped && !c.abandoned: // canceled in the transaction in which it would have begun
			return true
		case !c.stored || !c.waits && !c.heard && !c.stopped:
			s.world.Fail("I20", "a step of %s waits for run %v, or that exists, without the other", s.nameOf(c.parent.Run), c.run)
		case c.heard, c.end != 0 && c.stopped:
			o.parted(c)
			return true
		case c.end != 0 && !c.untold:
			if !s.world.Model().Told(c.parent.Run) {
				s.world.Fail("I20", "%s has ended, and nothing will tell its parent", s.nameOf(c.run))
			}
			if !c.told && !s.twin && s.world.Visit(EndUntold, s.nameOf(c.run)) {
				c.untold = true
				s.world.Model().Untell(c.parent.Run)
			}
			c.told = true
		case c.stopped && !c.abandoned && !c.canceling && !s.world.Model().Told(c.run):
			s.world.Fail("I20", "%s continues, its parent was canceled, and nothing will tell it", s.nameOf(c.run))
		}
		return false
	})
}

// parted notes that a child run and its parent have nothing to tell each other any more.
func (o *oracle) parted(c *child) {
	switch {
	case c.heard:
	case c.abandoned && c.end == lifecycle.Completed:
		o.seed.saw(SawChildAbandoned)
	case !c.abandoned && !c.canceling:
		o.seed.saw(SawEndsUnheard)
	}
}

// allTold judges at the end that all child runs and all their parents have heard of each other.
func (o *oracle) allTold() {
	for _, c := range o.families.open {
		o.seed.world.Fail("I20", "at the end %s is %v, and its parent waits %v", o.seed.nameOf(c.run), c.end, c.waits)
	}
}

// yielded notes what becomes of a report that begins a child run.
func (o *oracle) yielded(t *persistence.Transition, answer lifecycle.Answer) {
	if t.Report != lifecycle.Yielded {
		return
	}
	run, ok := o.seed.world.Model().RunSnapshot(t.Task.Run)
	switch {
	case answer == lifecycle.AlreadyYours && t.Map != nil:
		o.seed.saw(SawSpreadUnheard)
	case t.Map != nil, t.Activation != nil:
	case answer == lifecycle.AlreadyYours:
		o.seed.saw(SawYieldUnheard)
	case answer == lifecycle.Moved && ok && run.Task(t.Task.Step).State == lifecycle.Canceled:
		o.seed.saw(SawYieldStopped)
	}
}

// archived notes child runs that are in history before their parents have heard of their end.
func (o *oracle) archived() {
	for _, c := range o.families.open {
		if c.end != 0 && c.waits && o.seed.world.Model().InHistory(c.run) {
			o.seed.saw(SawChildArchived)
		}
	}
}

// keyed judges the idempotency key of an execution: of the same step of the same run, of one that
// continues it, and of their child runs it is the same, and nothing else has it.
func (o *oracle) keyed(about *actors.TaskInfo) {
	f, s := o.families, o.seed
	what := f.lineage[about.Run] + "/" + about.Step
	before, known := f.keys[what]
	other, taken := f.named[about.IdempotencyKey]
	if known && before != about.IdempotencyKey || taken && other != what {
		s.world.Fail("I20", "%s/%s has the key %s; its key was %q, and the key was that of %q", s.nameOf(about.Run), about.Step, about.IdempotencyKey, before, other)
	}
	f.keys[what], f.named[about.IdempotencyKey] = about.IdempotencyKey, what
	if c := f.ofRun[about.Run]; known && c != nil {
		if order := s.client.orders[s.nameOf(c.parent.Run)]; order != nil && !order.continues.IsZero() {
			s.saw(SawSameKeys)
		}
	}
}

// familyBlocked reports whether rows are blocked that a run needs, or a child run that it waits for.
func (o *oracle) familyBlocked(run workflow.RunID) bool {
	return o.seed.world.Model().IsBlocked(run) || slices.ContainsFunc(o.families.open, func(c *child) bool {
		return c.waits && c.parent.Run == run && o.familyBlocked(c.run)
	})
}
