package actors

import (
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// reserve asks the claimer for slots, and reports whether the batch waits for the answer.
// Under a limit per tenant first tasks are claimed, as claims count what tenants run.
func (a *intake) reserve(queue string) bool {
	if a.carryover.stopping || a.rt.config.TenantLimit > 0 || len(a.rt.handlers) == 0 || a.rt.buggify("reserve nothing") {
		return false
	}
	a.reservedIn = queueOr(queue)
	a.slotRequest.ask(&a.base, &messages.ReserveSlots{Queue: a.reservedIn}, func() { a.storeNext(nil) })
	return true
}

// onSlotsReserved stores the next batch, with all triggers that came meanwhile. If the
// request is over, the slots are released at once, unless the batch under way uses them.
func (a *intake) onSlotsReserved(m *messages.SlotsReserved) {
	if !a.slotRequest.heard(m.GetNumber()) {
		if open := a.carryover.open; open == nil || open.reservation.GetNumber() != m.GetNumber() {
			a.rt.releaseSlots(m, nil)
		}
		return
	}
	if m.GetSlots() == 0 {
		m = nil
	}
	a.storeNext(m)
}

func (a *intake) storeNext(reservation *messages.SlotsReserved) {
	if batch := a.next(); len(batch) > 0 {
		a.store(batch, reservation)
	} else {
		a.rt.releaseSlots(reservation, nil)
	}
}

// taking describes the first tasks that fit into a reservation: those of its pool,
// whichever queue the batch begins with by now.
func (a *intake) taking(reservation *messages.SlotsReserved) persistence.GrantRequest {
	take := persistence.GrantRequest{
		Pod: reservation.GetPod(), Claim: a.rt.newClaimID(), Limit: int(reservation.GetSlots()), Handlers: a.rt.claimable(),
	}
	for _, p := range a.rt.config.pools() {
		if p.name == a.rt.config.poolOf(a.reservedIn) {
			take.Queues = p.queues
		}
	}
	return take
}

// handOver ends the reservation of a batch. The granted tasks take its slots.
func (a *intake) handOver(open *openTrigger, grants []persistence.Grant) {
	if open.reservation == nil {
		return
	}
	a.rt.recorder.add(MetricFirstGrants, float64(len(grants)))
	a.rt.releaseSlots(open.reservation, startTasks(grants, func(int32) string { return firstOf(open.take.Queues) }))
}

// firstOf returns one of the queues of a pool, by which the pool is found.
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
