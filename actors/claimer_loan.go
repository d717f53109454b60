package actors

import (
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// loan is slots that the intake has for the first tasks of runs that it is about to
// store.
type loan struct {
	number int64
	pool   string
	slots  int
}

// onLendSlots lends half of what is free: what comes from elsewhere meanwhile
// finds slots, too, and other pods are told of what one alone cannot take.
func (a *claimer) onLendSlots(m *messages.LendSlots) {
	pool, slots := a.rt.config.poolOf(m.GetQueue()), 0
	if a.offered && !a.heir.fenced && !a.heir.stopping && a.heir.loan == nil {
		slots = min((max(a.free[pool], 0)+1)/2, persistence.ClaimMax)
	}
	if slots > 0 {
		a.free[pool] -= slots
		a.heir.loan = &loan{number: m.GetNumber(), pool: pool, slots: slots}
	}
	a.rt.send(a.rt.team.intake, &messages.SlotsLent{Number: m.GetNumber(), Slots: int32(slots), Pod: a.pod})
}

// askForLoan asks the intake for slots that a former incarnation lent: they may
// have been returned while nobody was here.
func (a *claimer) askForLoan() {
	if l := a.heir.loan; l != nil {
		a.rt.send(a.rt.team.intake, &messages.SlotsLent{Number: l.number, Slots: int32(l.slots), Pod: a.pod})
	}
}

// onSlotsReturned hands the tasks over that were granted in slots of the loan.
// What was granted to a pod that this one was before is not its own any more.
func (a *claimer) onSlotsReturned(m *messages.SlotsReturned) {
	tasks := m.GetTasks()
	if m.GetPod() != a.pod {
		return
	}
	if len(tasks) > 0 {
		a.rt.send(a.rt.team.runs, &messages.StartTasks{Tasks: tasks})
		if a.question != 0 {
			a.askForSlots() // the answer under way does not count these
		}
	}
	if l := a.heir.loan; l != nil && l.number == m.GetNumber() {
		a.free[l.pool] += l.slots - len(tasks)
		a.heir.loan = nil // not before the tasks are handed over
	}
	a.claim()
}
