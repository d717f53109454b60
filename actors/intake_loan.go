package actors

import (
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// lendingPatience is how long a batch waits for the claimer's answer, which takes
// microseconds unless the claimer is being restarted.
const lendingPatience = 10 * time.Millisecond

// lendingLate stores a batch without borrowed slots.
type lendingLate struct{ number int64 }

// borrow asks the claimer for slots, and reports whether its answer is worth
// waiting for. Tenants with a limit wait for their turn in the queue, where it
// is counted.
func (a *intake) borrow(queue string) bool {
	if a.heir.stopping || a.rt.config.TenantLimit > 0 || len(a.handlers) == 0 || a.rt.buggify("borrow nothing") {
		return false
	}
	a.lending = a.rt.numbers.next()
	a.rt.send(a.rt.team.claimer, &messages.LendSlots{Number: a.lending, Queue: queueOr(queue)})
	a.impatient = a.rt.after(lendingPatience, a.self, &lendingLate{number: a.lending})
	return true
}

// onSlotsLent stores the next batch, all that has come meanwhile in it. A loan
// that nobody waits for any more is returned at once; one that is in use will be.
func (a *intake) onSlotsLent(m *messages.SlotsLent) {
	if m.GetNumber() != a.lending {
		if open := a.heir.open; open == nil || open.loan.GetNumber() != m.GetNumber() {
			a.rt.send(a.rt.team.claimer, &messages.SlotsReturned{Number: m.GetNumber(), Pod: m.GetPod()})
		}
		return
	}
	a.lending = 0
	a.impatient()
	if m.GetSlots() == 0 {
		m = nil
	}
	if batch := a.next(); len(batch) > 0 {
		a.store(batch, m)
	} else if m != nil {
		a.rt.send(a.rt.team.claimer, &messages.SlotsReturned{Number: m.GetNumber(), Pod: m.GetPod()})
	}
}

func (a *intake) onLendingLate(m *lendingLate) {
	if m.number != a.lending {
		return
	}
	a.lending = 0
	if batch := a.next(); len(batch) > 0 {
		a.store(batch, nil)
	}
}

// taking is what the pod that lent slots can take.
func (a *intake) taking(loan *messages.SlotsLent, queue string) persistence.Taking {
	take := persistence.Taking{
		Pod: loan.GetPod(), Claim: a.rt.newClaimID(), Limit: int(loan.GetSlots()), Handlers: a.handlers,
	}
	for _, p := range a.rt.config.pools() {
		if p.name == a.rt.config.poolOf(queueOr(queue)) {
			take.Queues = p.queues
		}
	}
	return take
}

// giveBack ends the loan of the open batch. The tasks that were granted take
// their slots of it.
func (a *intake) giveBack(grants []persistence.Grant) {
	open := a.heir.open
	if open.loan == nil {
		return
	}
	a.rt.meter.add(MetricFirstGrants, float64(len(grants)))
	queue := func(int32) string { return append(open.take.Queues, DefaultQueue)[0] }
	a.rt.send(a.rt.team.claimer, &messages.SlotsReturned{
		Number: open.loan.GetNumber(), Pod: open.loan.GetPod(), Tasks: startTasks(grants, queue),
	})
	open.loan = nil
}

func queueOr(queue string) string {
	if queue == "" {
		return DefaultQueue
	}
	return queue
}
