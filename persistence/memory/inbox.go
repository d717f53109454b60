package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// entry is a signal for a run.
type entry struct {
	id      string
	number  int64 // of its submission: entries are delivered in this order
	n       int64 // 0: it is not delivered
	name    string
	at      time.Time
	taken   bool
	step    int32 // that has taken it
	payload []byte
}

// SendSignals implements persistence.Inbox.
func (s *Store) SendSignals(_ context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	if len(batch) > persistence.SignalBatchMax {
		return persistence.Signals{}, fmt.Errorf("send %d signals: at most %d in one batch", len(batch), persistence.SignalBatchMax)
	}
	b := s.begin()
	defer s.mu.Unlock()
	out := persistence.Signals{Now: b.clock, Answers: make([]persistence.SignalAnswer, len(batch))}
	for i := range batch {
		out.Answers[i] = b.send(&batch[i])
	}
	out.Wake = b.wake
	return out, nil
}

// SendSignalInTx implements persistence.Inbox. tx is a *Tx of this store.
func (s *Store) SendSignalInTx(_ context.Context, tx any, signal persistence.Signal) (persistence.SignalAnswer, error) {
	own, err := s.own(tx)
	if err != nil {
		return persistence.SignalAnswer{}, err
	}
	b := s.begin()
	defer s.mu.Unlock()
	if own.done {
		return persistence.SignalAnswer{}, ErrTxDone
	}
	answer := s.examineSignal(&signal, own)
	if answer.Result != persistence.SignalStored {
		return answer, nil
	}
	s.submissions++
	signal.Run, signal.Payload = answer.Run, bytes.Clone(signal.Payload)
	own.signals = append(own.signals, draftedSignal{s.submissions, b.now, signal})
	return answer, nil
}

// draftedSignal is a signal in a transaction of the user.
type draftedSignal struct {
	number int64
	at     time.Time
	signal persistence.Signal
}

// send stores a signal.
func (b *batch) send(signal *persistence.Signal) persistence.SignalAnswer {
	answer := b.s.examineSignal(signal, nil)
	if answer.Result == persistence.SignalStored {
		b.s.submissions++
		to := *signal
		to.Run = answer.Run
		b.s.signaled(draftedSignal{b.s.submissions, b.now, to})
		b.wake.Submitted = true
	}
	return answer
}

// signaled keeps a signal for DrainIntake. A transaction that committed meanwhile may have
// stored one of the same id.
func (s *Store) signaled(d draftedSignal) {
	run := d.signal.Run
	if slices.ContainsFunc(s.inbox[run], func(e entry) bool { return e.id == d.signal.ID }) {
		return
	}
	s.inbox[run] = append(s.inbox[run], entry{
		id: d.signal.ID, number: d.number, name: d.signal.Name, at: d.at, payload: append([]byte{}, d.signal.Payload...), // a database keeps none as an empty one
	})
	if box := s.inbox[run]; len(box) > 1 && box[len(box)-2].number > d.number { // of a transaction that began before
		slices.SortFunc(box, func(a, b entry) int { return int(a.number - b.number) })
	}
	s.submit(submission{number: d.number, id: run, signal: true})
}

// examineSignal says what becomes of a signal, without storing it. owner is the transaction
// that sends it; nil: none.
func (s *Store) examineSignal(signal *persistence.Signal, owner *Tx) persistence.SignalAnswer {
	id, tenant := signal.Run, signal.Tenant
	if id.IsZero() {
		id, tenant = s.runOfKey(signal.Key, owner), signal.Key.Tenant
	}
	of, def, ended := s.addressee(id, owner)
	if def == nil || tenant != "" && of != tenant {
		return persistence.SignalAnswer{Result: persistence.SignalNoRun}
	}
	answer := persistence.SignalAnswer{Run: id}
	untaken, handled := 0, int64(0) // by a machine
	if r := s.runs[id]; r != nil {
		handled = r.machine.taken
	}
	repeated := owner != nil && slices.ContainsFunc(owner.signals, func(d draftedSignal) bool { return d.signal.Run == id && d.signal.ID == signal.ID })
	for _, e := range s.inbox[id] {
		repeated = repeated || e.id == signal.ID
		if !e.taken && (e.n == 0 || e.n > handled) {
			untaken++
		}
	}
	names := def.graph.Signals()
	answer.Err = signal.Check()
	switch {
	case answer.Err != nil:
		answer.Result = persistence.SignalBadRow
	case repeated:
		answer.Result = persistence.SignalRepeated
	case ended:
		answer.Result = persistence.SignalRunEnded
	case !slices.Contains(names, signal.Name):
		answer.Result, answer.Names = persistence.SignalUnknown, names
	case untaken >= persistence.InboxMax:
		answer.Result = persistence.SignalInboxFull
	default:
		answer.Result = persistence.SignalStored
		if answer.Err = s.refuse(signal.Payload); answer.Err != nil {
			answer.Result = persistence.SignalBadRow
		}
	}
	return answer
}

// addressee returns the tenant and the definition of a run, also of one that a transaction has
// just triggered; nil: there is none.
func (s *Store) addressee(id workflow.RunID, owner *Tx) (tenant string, def *definition, ended bool) {
	if r := s.runs[id]; r != nil {
		return r.trigger.Tenant, r.definition, r.core.State.Terminal()
	}
	if owner != nil {
		for i := range owner.triggers {
			if t := &owner.triggers[i].trigger; t.Run == id {
				return t.Tenant, s.definitions[t.Definition], false
			}
		}
	}
	return "", nil, false
}

// runOfKey returns the run that a key names, or the one that continues it; zero: there is none.
func (s *Store) runOfKey(of persistence.RunKey, owner *Tx) workflow.RunID {
	k := key{of.Tenant, of.Workflow, of.Key}
	id := s.keys[k]
	if owner != nil && id.IsZero() {
		id = owner.drafted.keys[k].Run
	}
	for {
		next := workflow.RunID{}
		for task, l := range s.letters {
			if task.Run == id && compareRuns(l.RequeuedAs, next) > 0 {
				next = l.RequeuedAs
			}
		}
		if next.IsZero() {
			return id
		}
		id = next
	}
}

// undelivered returns facts of the signals of a run that are not delivered and were sent until
// an instant; zero: of all.
func (s *Store) undelivered(r *run, until time.Time) (facts []lifecycle.Fact) {
	for _, e := range s.inbox[r.id()] {
		if e.n == 0 && (until.IsZero() || !e.at.After(until)) {
			facts = append(facts, lifecycle.SignalArrived{Name: e.name, Steps: r.definition.graph.WaitsFor(e.name)})
		}
	}
	return facts
}

// undeliveredBefore returns facts of the signals of a run that were sent before the last of its
// deadlines among timers.
func (s *Store) undeliveredBefore(r *run, due []timer) []lifecycle.Fact {
	var last time.Time
	for _, t := range due {
		if t.run == r.id() && t.kind == lifecycle.DeadlineTimer && t.at.After(last) {
			last = t.at
		}
	}
	if last.IsZero() {
		return nil
	}
	return s.undelivered(r, last)
}

// untaken returns the inbox of a run as decisions see it.
func (s *Store) untaken(id workflow.RunID) (entries []lifecycle.Entry) {
	for _, e := range s.inbox[id] {
		if e.n > 0 && !e.taken {
			entries = append(entries, lifecycle.Entry{N: e.n, Name: e.name})
		}
	}
	slices.SortFunc(entries, func(a, b lifecycle.Entry) int { return cmp.Compare(a.N, b.N) })
	return entries
}

// stamp numbers signals that were delivered, and gives those to steps that these have taken.
func (b *batch) stamp(r *run, arrived []lifecycle.Entry, taken []lifecycle.Taken) {
	box := b.s.inbox[r.id()]
	for _, a := range arrived {
		i := slices.IndexFunc(box, func(e entry) bool { return e.n == 0 })
		box[i].n = a.N
	}
	for _, t := range taken {
		i := slices.IndexFunc(box, func(e entry) bool { return e.n == t.N })
		box[i].taken, box[i].step = true, t.Step
		if of := r.detail(t.Step); r.task(t.Step).State == lifecycle.Completed {
			of.output = append([]byte{}, box[i].payload...)
		} else {
			of.progress = bytes.Clone(box[i].payload)
		}
	}
}

// deliver delivers the signals of at most limit submissions, the oldest first. How their families
// stand is read before any of them, as a transaction reads that before it writes.
func (b *batch) deliver(limit int, out *persistence.Drained) {
	s := b.s
	var taken []workflow.RunID
	s.intake = slices.DeleteFunc(s.intake, func(sub submission) bool {
		r := s.runs[sub.id]
		switch {
		case !sub.signal:
			return false
		case len(taken) == limit:
			out.More = true
			return false
		case r != nil && !r.core.State.Terminal() && s.blocks(sub.id):
			out.Again = lookAgain
			return false
		}
		taken = append(taken, sub.id)
		return true
	})
	out.Requests = len(taken)
	family := map[workflow.RunID][]lifecycle.Fact{}
	for _, id := range taken {
		if r := s.runs[id]; r != nil && family[id] == nil {
			family[id] = s.familyFacts(r)
		}
	}
	for _, id := range taken {
		b.deliverTo(id, family[id], out)
		delete(family, id)
	}
}

// deliverTo delivers the signals of a run, and what it has not heard of its family.
func (b *batch) deliverTo(id workflow.RunID, family []lifecycle.Fact, out *persistence.Drained) {
	s, r := b.s, b.s.runs[id]
	if r == nil || r.core.State.Terminal() {
		out.Dropped += s.dropUndelivered(id)
		return
	}
	signals := s.undelivered(r, time.Time{})
	facts := append(signals, family...)
	if len(facts) == 0 {
		return
	}
	d := b.decide(r, facts...)
	for i, fact := range facts {
		if request, is := fact.(lifecycle.CancelRequested); is && d.Answers[i] == lifecycle.Moved {
			b.canceled(r, request.Reason)
		}
	}
	late := 0 // behind the one that ended the run
	if r.core.State.Terminal() {
		late = s.dropUndelivered(id)
	}
	out.Delivered, out.Dropped = out.Delivered+len(signals)-late, out.Dropped+late
}

// dropUndelivered removes the signals of a run that are not delivered, and counts them.
func (s *Store) dropUndelivered(id workflow.RunID) int {
	before := len(s.inbox[id])
	s.inbox[id] = slices.DeleteFunc(s.inbox[id], func(e entry) bool { return e.n == 0 })
	return before - len(s.inbox[id])
}

// continueInbox gives a run what the run that it continues has in its inbox. What steps have
// taken that are executed again waits for them again.
func (s *Store) continueInbox(from, to *run, kept map[int32][]byte) {
	for _, e := range s.inbox[from.id()] {
		if e.n == 0 {
			continue
		}
		if _, is := kept[e.step]; !is {
			e.taken, e.step = false, 0
		}
		e.payload = bytes.Clone(e.payload)
		s.inbox[to.id()] = append(s.inbox[to.id()], e)
		to.core.Signals = max(to.core.Signals, e.n)
	}
}

// older reports whether a pod lives that does not know the workflow of a graph.
func (s *Store) older(graph *workflow.Graph) bool {
	for _, p := range s.pods {
		if !p.dead && p.info.Protocol < persistence.ProtocolOf(graph) {
			return true
		}
	}
	return false
}
