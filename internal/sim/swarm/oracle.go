package swarm

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// oracle judges the state of the database after every transaction.
type oracle struct {
	seed  *seed
	runs  map[workflow.RunID]*seen
	open  int // runs that have not ended
	book  *book
	calls int // store calls

	deaths int // tasks that failed for good

	recorded []persistence.Held // attempts whose reports the transaction says it has recorded
	families *families
	machines *machinery
}

// seen is a run as it was after the last transaction that changed it.
type seen struct {
	events  int
	outputs map[int32][]byte
	ended   bool
	slept   map[int32]time.Time // until when a task sleeps or backs off
	ready   map[int32]readiness
	waits   map[int32]time.Time // until when a task waits for a signal; zero: for ever
	cancel  time.Time           // when its cancel was recorded
	failing bool                // a failure stops what waits beside it
	split   map[int32]int64     // by map: the pod that began its elements
}

func newOracle(s *seed) *oracle {
	o := &oracle{seed: s, runs: map[workflow.RunID]*seen{}, book: newBook(), families: newFamilies()}
	o.machines = newMachinery(o)
	return o
}

// committed looks at the runs that a transaction changed.
func (o *oracle) committed(call string) {
	o.calls++
	o.book.call = call
	for _, id := range o.seed.world.Model().Changed() {
		run, ok := o.seed.world.Model().RunSnapshot(id)
		if ok {
			o.judge(&run)
		}
	}
	o.stored()
	o.told()
	o.balance()
}

func (o *oracle) judge(run *snapshot.Run) {
	w := o.seed.world
	was := o.runs[run.ID]
	if was == nil {
		was = &seen{outputs: map[int32][]byte{}, slept: map[int32]time.Time{}, ready: map[int32]readiness{}, waits: map[int32]time.Time{}, split: map[int32]int64{}}
		o.runs[run.ID] = was
		o.open++
		o.name(run)
	}
	if wrong := snapshot.CheckRun(run); len(wrong) > 0 {
		promise, text, _ := strings.Cut(wrong[0], ": ")
		w.Fail(promise, "%s: %s", o.seed.nameOf(run.ID), text)
		return
	}
	if len(run.Events) < was.events {
		w.Fail("I10", "%s has %d events and had %d", o.seed.nameOf(run.ID), len(run.Events), was.events)
		return
	}
	o.machines.granted(run)
	o.explains(run)
	for i := was.events; i < len(run.Events); i++ {
		o.event(run, was, &run.Events[i])
	}
	was.events, was.failing = len(run.Events), run.Core.Failing
	o.account(run)
	o.machines.judge(run)
	for i := range run.Tasks {
		t := &run.Tasks[i]
		before, had := was.outputs[t.Step]
		if had && !bytes.Equal(before, t.Output) {
			w.Fail("I3", "%s: the output of step %d changed", o.seed.nameOf(run.ID), t.Step)
		}
		if t.State == lifecycle.Completed && !had {
			was.outputs[t.Step] = bytes.Clone(t.Output)
		}
	}
	if ended := run.Core.State.Terminal(); ended != was.ended {
		if was.ended {
			w.Fail("I6", "%s had ended and continues", o.seed.nameOf(run.ID))
		}
		was.ended = ended
		o.open--
		o.childEnded(run)
	}
}

// name remembers what the load calls the run.
func (o *oracle) name(run *snapshot.Run) {
	if o.family(run) {
		return
	}
	row, err := o.seed.world.Model().Run(o.seed.ctx, "", run.ID)
	order := o.seed.client.orders[cmp.Or(row.Key, row.Labels[orderLabel])]
	if err != nil || order == nil {
		o.seed.world.Fail("I2", "run %v belongs to no trigger", run.ID)
		return
	}
	for other, name := range o.seed.names {
		if name == order.name && !order.keyless {
			o.seed.world.Fail("I8", "%s is run %v and run %v", name, other, run.ID)
		}
	}
	o.seed.names[run.ID] = order.name
}

// event judges one new event.
func (o *oracle) event(run *snapshot.Run, was *seen, e *lifecycle.Event) {
	s := o.seed
	o.enter(run, e)
	switch {
	case e.Step == lifecycle.RunStep:
	case run.Task(e.Step).Traits.Has(workflow.TraitWaits):
		o.waited(run, was, e)
	case run.Task(e.Step).Traits.Has(workflow.TraitChild):
		o.parentMoved(run, was, e)
	case run.Task(e.Step).IsElement():
		o.elementMoved(run, e)
	case run.Task(e.Step).Traits.Has(workflow.TraitMap):
		o.mapMoved(run, was, e)
	}
	switch e.Kind { //nolint:exhaustive // the others are judged by their effects
	case lifecycle.EventSleeping, lifecycle.EventRetrying:
		was.slept[e.Step] = e.WakeAt
	case lifecycle.EventWoken, lifecycle.EventQueued:
		if at, ok := was.slept[e.Step]; ok {
			if e.At.Before(at) {
				s.world.Fail("I7", "%s step %d woke at %v, before %v", s.nameOf(run.ID), e.Step, e.At, at)
			}
			o.late(run.ID, e.Step, at, e.At)
		}
		delete(was.slept, e.Step)
		was.ready[e.Step] = readiness{e.At, s.spare()}
	case lifecycle.EventLost:
		o.fenced(run.ID, nodeOf(run, e.Step).Name, e.Pod)
		was.ready[e.Step] = readiness{e.At, s.spare()}
		s.saw(SawLeaseLost)
	case lifecycle.EventReleased:
		was.ready[e.Step] = readiness{e.At, s.spare()}
		s.saw(SawHandedBack)
	case lifecycle.EventCancelRequested:
		if run.Core.Canceling { // not yet where a machine hears of it
			was.cancel = e.At
		}
		s.saw(SawCanceled)
		o.childStops(run, e)
	case lifecycle.EventStarted:
		o.waits(run.ID, e.Step, was.ready[e.Step], e.At)
		if !was.cancel.IsZero() && !o.handler(run, e.Step) {
			s.world.Fail("I6", "%s step %d started after its run was canceled", s.nameOf(run.ID), e.Step)
		}
	case lifecycle.EventFailed:
		s.saw(SawFailed)
		o.dead(run, e.Step)
	case lifecycle.EventTimedOut:
		s.saw(SawTimedOut)
		o.dead(run, e.Step)
	case lifecycle.EventSkipped:
		s.saw(SawSkipped)
	}
}

// handler reports whether a step is the failure handler.
func (o *oracle) handler(run *snapshot.Run, step int32) bool {
	return !run.Graph.IsMachine() && int(step) == len(run.Graph.Nodes)
}

// dead judges that a task which failed for good has a dead letter.
func (o *oracle) dead(run *snapshot.Run, step int32) {
	letter, err := o.seed.world.Model().DeadLetter(o.seed.ctx, run.Tenant, workflow.TaskID{Run: run.ID, Step: step})
	t := run.Task(step)
	if t.IsElement() { // its map has one, if it fails with it
		if err == nil {
			o.seed.world.Fail("dead", "%s step %d is an element and has a dead letter: %+v", o.seed.nameOf(run.ID), step, letter.DeadLetter)
		}
		return
	}
	if err != nil || letter.Class != t.Class || letter.Attempts != t.Attempt || letter.Lost != t.Lost {
		o.seed.world.Fail("dead", "%s step %d failed for good and has no such letter: %+v %v", o.seed.nameOf(run.ID), step, letter.DeadLetter, err)
		return
	}
	o.deaths++
}

// inputs judges what a step function is given: what its parents have stored.
func (o *oracle) inputs(node *workflow.Node, about *actors.TaskInfo, in actors.Inputs, whole bool) {
	w := o.seed.world
	run, ok := w.Model().RunSnapshot(about.Run)
	if !ok {
		w.Fail("I2", "%v is executed and does not exist", about.Run)
		return
	}
	if order := o.seed.client.orders[o.seed.nameOf(about.Run)]; order != nil && whole && !bytes.Equal(order.input, in.Input) {
		w.Fail("I5", "%s/%s got another input", order.name, about.Step)
	}
	for i := range in.Parents {
		p := &in.Parents[i]
		stored := run.Task(p.Index)
		if stored == nil {
			continue
		}
		if !p.State.Terminal() || p.State != stored.State || !bytes.Equal(p.Output, stored.Output) {
			w.Fail("I5", "%s/%s got of %s %v %q; stored is %v %q", o.seed.nameOf(about.Run), node.Name, p.Step, p.State, p.Output, stored.State, stored.Output)
		}
	}
}

// end judges the last state.
func (o *oracle) end() {
	s := o.seed
	if wrong := snapshot.Check(o.tables()); len(wrong) > 0 {
		promise, text, _ := strings.Cut(wrong[0], ": ")
		s.world.Fail(promise, "at the end: %s", text)
		return
	}
	tables := s.world.Model().Snapshot()
	if n := len(tables.Queue) + len(tables.Timers) + len(tables.Claims) + len(tables.Intake); n > 0 {
		s.world.Fail("I1", "at the end %d queue rows, %d timers, %d claims, %d intake rows are left",
			len(tables.Queue), len(tables.Timers), len(tables.Claims), len(tables.Intake))
	}
	o.signals(&tables)
	o.allTold()
	o.machines.end()
	if n, err := s.world.Model().CountDeadLetters(s.ctx, persistence.DeadFilter{}); err != nil || n != o.deaths {
		s.world.Fail("dead", "%d tasks failed for good, and %d dead letters are there: %v", o.deaths, n, err)
	}
	for _, order := range s.client.sorted {
		name := order.name
		row, err := s.world.Model().Run(s.ctx, order.tenant, order.run)
		if err != nil || !row.State.Terminal() {
			s.world.Fail("I1", "%s was acknowledged and is lost", name)
			continue
		}
		if _, err := s.world.Model().Run(s.ctx, "another tenant", order.run); err == nil {
			s.world.Fail("I14", "%s can be read by another tenant", name)
		}
	}
	for key, attempts := range s.effects {
		if len(attempts) > 1 {
			s.saw(SawEffectRepeated)
		}
		_ = key
	}
}
