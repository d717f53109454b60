package actors

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// reservationTimeout is how long a batch waits for the claimer's answer, which takes
// microseconds unless the claimer is being restarted.
const reservationTimeout = 10 * time.Millisecond

// slotRequest asks the claimer for slots, for tasks that may be granted with the batch
// that the asking actor is about to store.
type slotRequest struct {
	number int64 // of the request under way; 0: none
	stop   func()
}

// ask asks for slots. SlotsReserved comes to the actor, or late is called.
func (r *slotRequest) ask(b *base, question *messages.ReserveSlots, late func()) {
	number := b.rt.numbers.next()
	r.number, question.Number = number, number
	b.rt.send(b.rt.addresses.claimer, question)
	r.stop = b.later(reservationTimeout, func() {
		if r.heard(number) {
			late()
		}
	})
}

func (r *slotRequest) waits() bool { return r.number != 0 }

// heard ends the request, and reports whether it has that number.
func (r *slotRequest) heard(number int64) bool {
	if r.number == 0 || number != r.number {
		return false
	}
	r.number = 0
	r.stop()
	return true
}

// releaseSlots ends a reservation. The tasks take some of its slots.
func (rt *runtime) releaseSlots(reservation *messages.SlotsReserved, tasks []*messages.StartTask) {
	if reservation.GetSlots() > 0 {
		rt.send(rt.addresses.claimer, &messages.SlotsReleased{Number: reservation.GetNumber(), Pod: reservation.GetPod(), Tasks: tasks})
	}
}

// hasNoReservation tells the claimer that an actor which has started has no reservation:
// the answer may have been lost with the former incarnation.
func (rt *runtime) hasNoReservation(journal bool) {
	rt.send(rt.addresses.claimer, &messages.SlotsReleased{Journal: journal})
}

// requester is the actor that has a reservation; it has one at a time.
type requester bool

const (
	forIntake  requester = false
	forJournal requester = true
)

// reservation is slots for tasks that may be granted to this pod without a claim.
type reservation struct {
	number int64
	pool   string
	slots  int
}

// onReserveSlots reserves half of the free slots. The other half is for tasks that other
// pods store meanwhile, and other pods hear of tasks that this pod alone cannot execute.
// A request replaces the actor's former reservation. Nothing is reserved while a queue of
// the pool may hold ready tasks, or under a limit per tenant.
func (a *claimer) onReserveSlots(m *messages.ReserveSlots) {
	by := requester(m.GetJournal())
	a.dropReservation(by)
	pool, slots := a.rt.config.poolOf(m.GetQueue()), 0
	if a.rt.config.TenantLimit == 0 && a.offered && !a.carryover.fenced && !a.carryover.stopping && !a.isWoken(pool) {
		slots = min((max(a.free[pool], 0)+1)/2, persistence.ClaimMax)
	}
	if slots > 0 {
		a.free[pool] -= slots
		a.carryover.reservations[by] = &reservation{number: m.GetNumber(), pool: pool, slots: slots}
	}
	a.tellReserved(by, m.GetNumber(), slots)
}

func (a *claimer) tellReserved(to requester, number int64, slots int) {
	pid := a.rt.addresses.intake
	if to == forJournal {
		pid = a.rt.addresses.journal
	}
	a.rt.send(pid, &messages.SlotsReserved{Number: number, Slots: int32(slots), Pod: a.pod})
}

// repeatReservations answers again what a former incarnation reserved: the slots may have
// been released while no claimer ran.
func (a *claimer) repeatReservations() {
	for _, by := range []requester{forIntake, forJournal} {
		if r := a.carryover.reservations[by]; r != nil {
			a.tellReserved(by, r.number, r.slots)
		}
	}
}

// onSlotsReleased hands over the tasks that were granted in reserved slots. Tasks that
// were granted to a former pod number of this process are not this pod's any more.
func (a *claimer) onSlotsReleased(m *messages.SlotsReleased) {
	tasks := m.GetTasks()
	switch {
	case m.GetNumber() == 0:
		a.dropReservation(requester(m.GetJournal()))
		a.claim()
		return
	case m.GetPod() != a.pod:
		return
	}
	a.start(tasks)
	for _, by := range []requester{forIntake, forJournal} {
		if r := a.carryover.reservations[by]; r != nil && r.number == m.GetNumber() {
			a.free[r.pool] += r.slots - len(tasks)
			delete(a.carryover.reservations, by) // not before the tasks are handed over
		}
	}
	a.claim()
}

// dropReservation ends a reservation of which no slot was used.
func (a *claimer) dropReservation(by requester) {
	if r := a.carryover.reservations[by]; r != nil {
		a.free[r.pool] += r.slots
		delete(a.carryover.reservations, by)
	}
}

// isWoken reports whether a queue of the pool was woken and not claimed from since.
func (a *claimer) isWoken(pool string) bool {
	return slices.ContainsFunc(a.queues, func(q *queueScan) bool { return q.pool == pool && q.woken })
}
