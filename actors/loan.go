package actors

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// lendingPatience is how long a batch waits for the claimer's answer, which takes
// microseconds unless the claimer is being restarted.
const lendingPatience = 10 * time.Millisecond

// lendingLate ends the wait for it.
type lendingLate struct{ number int64 }

// borrower is an actor's question for slots: for tasks that may be granted with
// what it is about to store.
type borrower struct {
	number    int64 // of the question under way; 0: none
	impatient func()
}

// ask asks the claimer for slots of the pool of a queue. Its answer, or
// lendingLate, comes to the actor.
func (b *borrower) ask(rt *runtime, self *PID, question *messages.LendSlots) {
	b.number = rt.numbers.next()
	question.Number = b.number
	rt.send(rt.team.claimer, question)
	b.impatient = rt.after(lendingPatience, self, &lendingLate{number: b.number})
}

func (b *borrower) waits() bool { return b.number != 0 }

// heard ends the question, and reports whether it was that one.
func (b *borrower) heard(number int64) bool {
	if b.number == 0 || number != b.number {
		return false
	}
	b.number = 0
	b.impatient()
	return true
}

// returnSlots ends a loan. Tasks take some of its slots.
func (rt *runtime) returnSlots(loan *messages.SlotsLent, tasks []*messages.StartTask) {
	if loan.GetSlots() > 0 {
		rt.send(rt.team.claimer, &messages.SlotsReturned{Number: loan.GetNumber(), Pod: loan.GetPod(), Tasks: tasks})
	}
}

// holdsNone says that an actor which has started has no loan. The answer to a
// question may have been lost with its former incarnation.
func (rt *runtime) holdsNone(journal bool) {
	rt.send(rt.team.claimer, &messages.SlotsReturned{Journal: journal})
}

// onLendSlots lends half of what is free: what comes from elsewhere meanwhile
// finds slots, too, and other pods are told of what one alone cannot take. Each of
// the borrowers has one loan at a time: who asks has none any more. Nothing is lent
// while there may be work in the queues of the pool, or under a limit per tenant.
func (a *claimer) onLendSlots(m *messages.LendSlots) {
	to := lendee(m.GetJournal())
	a.takeBack(to)
	pool, slots := a.rt.config.poolOf(m.GetQueue()), 0
	if a.rt.config.TenantLimit == 0 && a.offered && !a.heir.fenced && !a.heir.stopping && !a.waits(pool) {
		slots = min((max(a.free[pool], 0)+1)/2, persistence.ClaimMax)
	}
	if slots > 0 {
		a.free[pool] -= slots
		a.heir.loans[to] = &loan{number: m.GetNumber(), pool: pool, slots: slots}
	}
	a.lend(to, m.GetNumber(), slots, pool)
}

// lendee is who has a loan.
type lendee bool

// Those who borrow.
const (
	theIntake  lendee = false
	theJournal lendee = true
)

// loan is slots that somebody has for tasks that may be granted to this pod.
type loan struct {
	number int64
	pool   string
	slots  int
}

func (a *claimer) lend(to lendee, number int64, slots int, pool string) {
	pid := a.rt.team.intake
	if to == theJournal {
		pid = a.rt.team.journal
	}
	a.rt.send(pid, &messages.SlotsLent{Number: number, Slots: int32(slots), Pod: a.pod})
}

// askForLoans asks for the slots that a former incarnation lent: they may have
// been returned while nobody was here.
func (a *claimer) askForLoans() {
	for _, to := range []lendee{theIntake, theJournal} {
		if l := a.heir.loans[to]; l != nil {
			a.lend(to, l.number, l.slots, l.pool)
		}
	}
}

// onSlotsReturned hands the tasks over that were granted in slots of a loan. What
// was granted to a pod that this one was before is not its own any more.
func (a *claimer) onSlotsReturned(m *messages.SlotsReturned) {
	tasks := m.GetTasks()
	switch {
	case m.GetNumber() == 0:
		a.takeBack(lendee(m.GetJournal()))
		a.claim()
		return
	case m.GetPod() != a.pod:
		return
	}
	if len(tasks) > 0 {
		a.rt.send(a.rt.team.runs, &messages.StartTasks{Tasks: tasks})
		if a.question != 0 {
			a.askForSlots() // the answer under way does not count these
		}
	}
	for _, to := range []lendee{theIntake, theJournal} {
		if l := a.heir.loans[to]; l != nil && l.number == m.GetNumber() {
			a.free[l.pool] += l.slots - len(tasks)
			delete(a.heir.loans, to) // not before the tasks are handed over
		}
	}
	a.claim()
}

// takeBack ends a loan of which nothing was used.
func (a *claimer) takeBack(from lendee) {
	if l := a.heir.loans[from]; l != nil {
		a.free[l.pool] += l.slots
		delete(a.heir.loans, from)
	}
}

// waits reports whether a queue of the pool was woken and not claimed from since.
func (a *claimer) waits(pool string) bool {
	return slices.ContainsFunc(a.queues, func(q *queueScan) bool { return q.pool == pool && q.woken })
}
