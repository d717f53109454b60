package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// reserve asks the claimer for slots, and reports whether the batch waits for the answer:
// completed tasks may have more children than they leave slots.
func (a *journal) reserve() bool {
	if !a.carryover.granting || a.rt.buggify("reserve nothing") {
		return false
	}
	batch, _ := a.next()
	_, freed, queues := a.room(batch)
	if freed == 0 {
		return false
	}
	a.reservedIn = firstOf(queues)
	a.slotRequest.ask(&a.base, &messages.ReserveSlots{Queue: a.reservedIn, Journal: true}, a.onReservationLate)
	return true
}

// reservedFor reports whether the requested slots are of the pool that serves these queues.
// Reports that came since may leave more slots of another pool.
func (a *journal) reservedFor(queues []string) bool { return slices.Contains(queues, a.reservedIn) }

// inParentSlots returns how many of the granted children take slots of the reported tasks.
// Tasks that were not recorded leave none, and tasks that had to wait have released theirs
// before. The other children take reserved slots.
func (a *journal) inParentSlots(o *openRecord, granted int, answers []persistence.RecordAnswer) int {
	left := 0
	for i, r := range o.reports[:o.part] {
		if frees(r) && r.GetPool() == o.pool &&
			answers[i].Result == lifecycle.Moved && !a.waits(r) {
			left++
		}
	}
	return max(min(granted, left), granted-int(o.reservation.GetSlots()))
}

// onSlotsReserved records the next batch. If the request is over, the slots are released at
// once, unless the batch under way uses them.
func (a *journal) onSlotsReserved(m *messages.SlotsReserved) {
	switch {
	case !a.slotRequest.heard(m.GetNumber()):
		if open := a.carryover.current; open == nil || open.reservation.GetNumber() != m.GetNumber() {
			a.rt.releaseSlots(m, nil)
		}
	case a.carryover.fenced:
		a.rt.releaseSlots(m, nil)
	case m.GetSlots() == 0:
		a.record(nil)
	default:
		a.record(m)
	}
}

func (a *journal) onReservationLate() {
	if !a.carryover.fenced {
		a.record(nil)
	}
}
