package memory

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// resumed says what a run that continues this one of a machine takes over.
func (r *run) resumed() lifecycle.Resumed {
	return lifecycle.ResumeMachine(r.core, r.tasks, r.machine.taken)
}

// leftBehind reports whether a machine has no use for what a letter of its run is about.
func (r *run) leftBehind(order *persistence.RequeueOrder) bool {
	return r != nil && !order.Fresh && r.definition.graph.IsMachine() && lifecycle.LeftBehind(r.tasks, order.Letter.Step, r.machine.taken)
}

// resumeMachine gives a run what its machine continues from, and returns how many ends are among
// that. Entries are kept from there on.
func (s *Store) resumeMachine(from, to *run, now time.Time) int {
	m, resumed := &from.machine, from.resumed()
	state := state{m.version, bytes.Clone(m.bytes)}
	here := mark{state: state, taken: m.taken, started: from.core.Dynamic}
	to.machine = machine{state: state, taken: m.taken, base: here, next: here}
	to.core.Signals, to.core.Dynamic = resumed.Signals, from.core.Dynamic
	for _, e := range s.inbox[from.id()] {
		if e.n > m.taken {
			e.payload = bytes.Clone(e.payload)
			s.inbox[to.id()] = append(s.inbox[to.id()], e)
		}
	}
	for _, t := range slices.Concat(resumed.Ended, resumed.Again) {
		before := from.detail(t.Step)
		d := to.insert(t)
		d.item, d.of = bytes.Clone(before.item), cmp.Or(before.of, from.definition)
		if !t.State.Terminal() {
			to.core.Remaining++
			to.core.Slow = true
			continue
		}
		d.output, d.finishedAt = bytes.Clone(before.output), now
		to.events = append(to.events, lifecycle.Event{Step: t.Step, N: 1, Kind: lifecycle.EventCompleted, At: now})
	}
	return len(resumed.Ended)
}
