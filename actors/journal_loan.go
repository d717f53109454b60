package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// borrow asks the claimer for slots, and reports whether its answer is worth
// waiting for: completed tasks may have more children than leave slots.
func (a *journal) borrow() bool {
	if !a.heir.granting || a.rt.buggify("borrow nothing") {
		return false
	}
	batch, _ := a.next()
	_, freed, queues := a.room(batch)
	if freed == 0 {
		return false
	}
	a.lentOf = firstOf(queues)
	a.borrower.ask(a.rt, a.self, &messages.LendSlots{Queue: a.lentOf, Journal: true})
	return true
}

// lends reports whether the loan is of the pool that serves these queues: of what
// is recorded now, another one may leave most slots.
func (a *journal) lends(queues []string) bool { return slices.Contains(queues, a.lentOf) }

// own is how many of the granted children take slots that the reported tasks left:
// of those that were not recorded none is free, and those that had to wait have
// given theirs back. The others take slots of the loan.
func (a *journal) own(o *openRecord, granted int, answers []persistence.RecordAnswer) int {
	left := 0
	for i, r := range o.reports[:o.part] {
		if r.GetKind() == messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED && r.GetPool() == o.pool &&
			answers[i].Result == lifecycle.Moved && !a.waits(r) {
			left++
		}
	}
	return max(min(granted, left), granted-int(o.loan.GetSlots()))
}

// onSlotsLent records the next batch. A loan that nobody waits for any more is
// returned at once; one that is in use will be.
func (a *journal) onSlotsLent(m *messages.SlotsLent) {
	switch {
	case !a.borrower.heard(m.GetNumber()):
		if open := a.heir.current; open == nil || open.loan.GetNumber() != m.GetNumber() {
			a.rt.returnSlots(m, nil)
		}
	case a.heir.fenced:
		a.rt.returnSlots(m, nil)
	case m.GetSlots() == 0:
		a.record(nil)
	default:
		a.record(m)
	}
}

func (a *journal) onLendingLate(m *lendingLate) {
	if a.borrower.heard(m.number) && !a.heir.fenced {
		a.record(nil)
	}
}
