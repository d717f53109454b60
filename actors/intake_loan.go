package actors

import (
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// borrow asks the claimer for slots, and reports whether its answer is worth
// waiting for. Tenants with a limit wait for their turn in the queue, where it
// is counted.
func (a *intake) borrow(queue string) bool {
	if a.heir.stopping || a.rt.config.TenantLimit > 0 || len(a.rt.handlers) == 0 || a.rt.buggify("borrow nothing") {
		return false
	}
	a.lentOf = queueOr(queue)
	a.borrower.ask(a.rt, a.self, &messages.LendSlots{Queue: a.lentOf})
	return true
}

// onSlotsLent stores the next batch, all that has come meanwhile in it. A loan
// that nobody waits for any more is returned at once; one that is in use will be.
func (a *intake) onSlotsLent(m *messages.SlotsLent) {
	if !a.borrower.heard(m.GetNumber()) {
		if open := a.heir.open; open == nil || open.loan.GetNumber() != m.GetNumber() {
			a.rt.returnSlots(m, nil)
		}
		return
	}
	if m.GetSlots() == 0 {
		m = nil
	}
	if batch := a.next(); len(batch) > 0 {
		a.store(batch, m)
	} else {
		a.rt.returnSlots(m, nil)
	}
}

func (a *intake) onLendingLate(m *lendingLate) {
	if !a.borrower.heard(m.number) {
		return
	}
	if batch := a.next(); len(batch) > 0 {
		a.store(batch, nil)
	}
}

// taking is what the pod that lent slots can take: of the pool that they are of,
// whatever the batch is of by now.
func (a *intake) taking(loan *messages.SlotsLent) persistence.Taking {
	take := persistence.Taking{
		Pod: loan.GetPod(), Claim: a.rt.newClaimID(), Limit: int(loan.GetSlots()), Handlers: a.rt.claimable(),
	}
	for _, p := range a.rt.config.pools() {
		if p.name == a.rt.config.poolOf(a.lentOf) {
			take.Queues = p.queues
		}
	}
	return take
}

// handOver ends the loan of a batch. The tasks that were granted take their slots
// of it.
func (a *intake) handOver(open *openTrigger, grants []persistence.Grant) {
	if open.loan == nil {
		return
	}
	a.rt.meter.add(MetricFirstGrants, float64(len(grants)))
	a.rt.returnSlots(open.loan, startTasks(grants, func(int32) string { return firstOf(open.take.Queues) }))
}

// firstOf returns a queue of the pool that serves these: by it the slot is found.
func firstOf(queues []string) string {
	if len(queues) == 0 {
		return DefaultQueue
	}
	return queues[0]
}

func queueOr(queue string) string {
	if queue == "" {
		return DefaultQueue
	}
	return queue
}
