package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/messages"
)

// borrow asks the claimer for slots, and reports whether its answer is worth
// waiting for: completed tasks may have more children than leave slots.
func (a *journal) borrow() bool {
	if !a.heir.granting || a.rt.config.TenantLimit > 0 || a.rt.buggify("borrow nothing") {
		return false
	}
	batch, _ := a.next()
	freed, queues := a.room(batch)
	if freed == 0 {
		return false
	}
	a.lent = queues[0]
	a.borrower.ask(a.rt, a.self, &messages.LendSlots{Queue: a.lent, Journal: true})
	return true
}

// lends reports whether the loan is of the pool that serves these queues: of what
// is recorded now, another one may leave most slots.
func (a *journal) lends(queues []string) bool { return slices.Contains(queues, a.lent) }

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
