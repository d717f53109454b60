package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// machine is how far a machine has come.
type machine struct {
	state

	taken int64 // entries up to this number are handled
	base  mark  // from where on entries are kept
	next  mark  // that becomes the base
}

// state is what the embedder keeps in a machine.
type state struct {
	version int32 // 0: there is none
	bytes   []byte
}

// mark is a state from which entries can be replayed.
type mark struct {
	state

	taken   int64
	started int32 // activities, timers and child runs by then
	epoch   int64 // of the machine then: its events up to this number are removed once this is the base
	events  int64 // of the run, the same
	at      time.Time
}

// decided returns what lifecycle has to know of the activation of a transition, if it has one.
func (s *Store) decided(r *run, t *persistence.Transition) (*lifecycle.Activation, error) {
	if t.Activation == nil {
		return nil, nil
	}
	var program *workflow.Graph
	if d := s.definitions[t.Activation.Definition]; d != nil {
		program = d.graph
	}
	return t.Decided(r.trigger.Workflow, program)
}

// inputs returns those of what an activation starts.
func inputs(a *persistence.Activation) (list [][]byte) {
	for _, s := range a.Start {
		list = append(list, s.Input)
	}
	return list
}

// activated stores what an activation leaves, which was executed under an epoch, while its run had so
// many events. The run continues with the program that executed it.
func (b *batch) activated(r *run, t *persistence.Transition, made []lifecycle.Task, events int64) {
	s, a := b.s, t.Activation
	r.definition = s.definitions[a.Definition]
	r.trigger.Definition = a.Definition
	for i := range made {
		d := r.detail(made[i].Step)
		if d.of = r.definition; !made[i].Traits.Has(workflow.TraitSleepUntil) {
			d.item = append([]byte{}, a.Start[i].Input...)
		}
	}
	m := &r.machine
	if persistence.Crosses(m.taken, a.Taken) {
		m.base, m.next = m.next, mark{taken: m.taken, state: m.state, started: r.core.Dynamic - int32(len(made)), epoch: t.Epoch, events: events, at: b.now}
		r.trimEvents()
	}
	m.taken = a.Taken
	if a.Version != 0 {
		m.state = state{a.Version, append([]byte{}, a.State...)}
	}
	if most := a.Trims(r.core.Dynamic); most > 0 && m.base.taken > 0 {
		s.trim(r, most)
	}
}

// trimEvents removes the events of a machine, and of its run, from before its base. One event stands
// for those of each.
func (r *run) trimEvents() {
	base := &r.machine.base
	if base.epoch == 0 {
		return
	}
	r.events = slices.DeleteFunc(r.events, func(e lifecycle.Event) bool {
		switch {
		case e.Kind == lifecycle.EventTrimmed:
			return true
		case e.Step == 0:
			return e.N <= base.epoch
		}
		return e.Step == lifecycle.RunStep && e.N <= base.events && (e.Kind == lifecycle.EventSignaled || e.Kind == lifecycle.EventCancelRequested)
	})
	if base.epoch > 0 { // or the run continues another, of which it has no events
		r.events = append(r.events, lifecycle.Event{Step: 0, N: base.epoch, Kind: lifecycle.EventTrimmed, At: base.at})
	}
	if base.events > 2 { // run_created and run_started stay
		r.events = append(r.events, lifecycle.Event{Step: lifecycle.RunStep, N: base.events, Kind: lifecycle.EventTrimmed, At: base.at})
	}
}

// trim removes what is no longer kept of a machine: of what it has started, and of signals, at most
// so many each.
func (s *Store) trim(r *run, most int) {
	base := r.machine.base.taken
	var old []lifecycle.Task
	for _, t := range r.tasks {
		if t.Step > 0 && t.Entry != 0 && max(t.Entry, -t.Entry) <= base {
			old = append(old, t)
		}
	}
	slices.SortFunc(old, func(a, b lifecycle.Task) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Step, b.Step))
	})
	gone := map[int32]bool{}
	for _, t := range old[:min(most, len(old))] {
		at, _ := r.at(t.Step)
		r.tasks, r.details = slices.Delete(r.tasks, at, at+1), slices.Delete(r.details, at, at+1)
		gone[t.Step] = true
	}
	r.events = slices.DeleteFunc(r.events, func(e lifecycle.Event) bool { return gone[e.Step] })
	heard := deliveredUpTo(s.inbox[r.id()], base, most)
	s.inbox[r.id()] = slices.DeleteFunc(s.inbox[r.id()], func(e entry) bool {
		_, is := slices.BinarySearch(heard, e.n)
		return is
	})
}

// deliveredUpTo returns the lowest numbers of delivered signals up to one, at most so many.
func deliveredUpTo(box []entry, last int64, most int) (ns []int64) {
	for _, e := range box {
		if e.n > 0 && e.n <= last {
			ns = append(ns, e.n)
		}
	}
	slices.Sort(ns)
	return ns[:min(most, len(ns))]
}

// machineGrant returns what an activation begins with.
func (s *Store) machineGrant(r *run) *persistence.MachineGrant {
	m := &r.machine
	g := &persistence.MachineGrant{
		Version: m.version, State: bytes.Clone(m.bytes), Taken: m.taken, Arrived: r.core.Signals, Started: r.core.Dynamic,
	}
	entries, more := s.entriesOf(r, m.taken, persistence.EntriesMax, persistence.EntriesBytes)
	if g.Entries = entries; more {
		g.Arrived = entries[len(entries)-1].N
	}
	return g
}

// entriesOf returns the entries of a machine with higher numbers, at most limit, and no more once
// they have so many bytes.
func (s *Store) entriesOf(r *run, after int64, limit, size int) (list []persistence.MachineEntry, more bool) {
	for _, e := range s.inbox[r.id()] {
		if e.n > after {
			list = append(list, persistence.MachineEntry{N: e.n, Kind: persistence.EntrySignal, At: e.at, Name: e.name, Payload: bytes.Clone(e.payload)})
		}
	}
	for i := range r.tasks {
		if t := &r.tasks[i]; t.Entry > after {
			list = append(list, r.entry(t, &r.details[i]))
		}
	}
	slices.SortFunc(list, func(a, b persistence.MachineEntry) int { return cmp.Compare(a.N, b.N) })
	all := len(list)
	list = list[:min(all, limit)]
	for i := range list {
		if size -= len(list[i].Payload); size < 0 && i > 0 {
			list = list[:i]
			break
		}
	}
	return list, len(list) < all
}

// entry returns the entry that the end of a task is, or the cancel of the machine.
func (r *run) entry(t *lifecycle.Task, d *detail) persistence.MachineEntry {
	e := persistence.MachineEntry{N: t.Entry, At: d.finishedAt}
	if t.Dynamic != nil {
		e.Name = t.Dynamic.Name
	}
	switch {
	case t.Traits.Has(workflow.TraitMachine):
		e.Kind, e.At, e.Error = persistence.EntryCancel, t.WakeAt, r.cancelReason
	case t.State == lifecycle.Completed && t.Traits.Has(workflow.TraitSleepUntil):
		e.Kind = persistence.EntryFired
	case t.State == lifecycle.Completed:
		e.Kind, e.Payload = persistence.EntryCompleted, bytes.Clone(d.output)
	default:
		e.Kind, e.Class, e.Error = persistence.EntryFailed, t.Class, t.Error
	}
	return e
}

// Machine implements persistence.Runs.
func (s *Store) Machine(_ context.Context, tenant string, run workflow.RunID, query persistence.EntryQuery) (persistence.MachineRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, run)
	switch {
	case err != nil:
		return persistence.MachineRow{}, err
	case !r.definition.graph.IsMachine():
		return persistence.MachineRow{}, persistence.ErrNoMachine
	}
	m := &r.machine
	row := persistence.MachineRow{
		Version: m.version, State: bytes.Clone(m.bytes), Taken: m.taken, Arrived: r.core.Signals, Started: r.core.Dynamic,
		Base: m.base.taken, BaseVersion: m.base.version, BaseState: bytes.Clone(m.base.bytes), BaseStarted: m.base.started,
	}
	if limit := min(query.Limit, persistence.EntriesMax); limit > 0 {
		row.Entries, row.More = s.entriesOf(r, query.After, limit, persistence.EntriesBytes)
	}
	return row, nil
}
