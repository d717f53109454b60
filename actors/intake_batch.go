package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// openTrigger is one batch until it is answered.
type openTrigger struct {
	questions   []*question
	reservation *messages.SlotsReserved // of slots for the first tasks; nil: none
	take        persistence.Taking
	long        int // how often it has failed after a long time
}

// giveUp takes a batch for one that was not asked for, unless tasks may have
// been granted with it: it alone can tell.
func (h *intakeState) giveUp() {
	if h.open == nil {
		return
	}
	for _, q := range h.open.questions {
		q.asked = false
	}
	if h.open.reservation == nil {
		h.open = nil
	}
}

// flush stores the next batch unless one is under way.
func (a *intake) flush() {
	a.rt.meter.set(MetricTriggerPending, float64(a.carryover.rows))
	if a.busy() {
		return
	}
	if a.carryover.open != nil || a.carryover.rows == 0 || !a.gathering.begin(a.rt, a.self, a.carryover.rows, a.crowd > 1) {
		a.begin()
	}
}

// busy reports whether an answer or a timer will begin the next batch.
func (a *intake) busy() bool { return a.number != 0 || a.pause != 0 || a.slotRequest.waits() }

// begin begins the next batch unless one is under way. It first asks for slots for it.
func (a *intake) begin() {
	if a.busy() {
		return
	}
	if a.carryover.open != nil && a.again() {
		return
	}
	if batch := a.next(); len(batch) > 0 && !a.reserve(batch[0].triggers[0].Queue) {
		a.store(batch, nil)
	}
}

// next returns the questions of the next batch. If there are none yet, it waits for those
// that were set aside, or for the next that comes.
func (a *intake) next() []*question {
	a.dropLate()
	batch, wait := nextBatch(a.carryover.waiting, &a.narrow, a.rt.now())
	if len(batch) == 0 {
		if wait > 0 {
			a.wait(wait, true)
		}
		a.tellDrained()
	}
	return batch
}

// store begins a batch.
func (a *intake) store(batch []*question, reservation *messages.SlotsReserved) {
	open := &openTrigger{questions: batch, reservation: reservation}
	if reservation != nil {
		open.take = a.taking(reservation)
	}
	a.carryover.open, a.crowd = open, len(batch)
	a.send()
}

// again makes the call again whose outcome is unknown, without what nobody waits
// for any more, and reports whether anything is left. If nothing is, tasks that
// were granted after all are found unheld.
func (a *intake) again() bool {
	a.dropLate()
	open := a.carryover.open
	if open.questions = slices.DeleteFunc(open.questions, func(q *question) bool { return q.done }); len(open.questions) > 0 {
		a.send()
		return true
	}
	a.rt.releaseSlots(open.reservation, nil)
	a.carryover.open = nil
	return false
}

func (a *intake) send() {
	open := a.carryover.open
	var rows []persistence.Trigger
	for i, q := range open.questions {
		q.asked = true
		for _, t := range q.triggers {
			if len(q.triggers) > 1 {
				t.Group = i + 1
			}
			rows = append(rows, t)
		}
	}
	a.rt.meter.observe(MetricTriggerBatch, float64(len(rows)))
	take := open.take
	call := "trigger_runs"
	if q := open.questions[0]; a.narrow.alone(q) && !q.least() {
		call = triggerLarge
	}
	a.began = a.rt.now()
	a.number = ask(a.rt, a.self, call, storeTimeout, func(ctx context.Context) (persistence.Triggers, error) {
		return a.rt.ports.Store.TriggerRuns(ctx, rows, take)
	})
}

// triggerLarge is the name of a call whose failure says nothing of others: what it stores
// is too large for the server, as far as is known.
const triggerLarge = "trigger_large"

// onTriggered answers a batch, or keeps all of it to be stored again: the run
// ids stay the same, so a batch that was stored after all is answered as such.
func (a *intake) onTriggered(m *answered[persistence.Triggers]) {
	open := a.carryover.open
	if m.number != a.number || open == nil {
		return
	}
	a.number = 0
	if m.err != nil {
		a.failures++
		call, wait, all := "trigger_runs", a.rt.retryDelay(a.failures), true
		switch {
		case errors.Is(m.err, persistence.ErrNoResources):
			if wait, all = a.makeDoWithLess(open); !all {
				call = triggerLarge
			}
		case a.rt.now().Sub(a.began) >= paceLong:
			a.tookLong(open)
		}
		a.rt.storeFailed(call, m.err)
		for _, q := range open.questions {
			q.last.Store(struct{ error }{m.err})
		}
		if errors.Is(m.err, persistence.ErrBadRow) && len(open.questions) == 1 {
			a.finish(open.questions[0], triggerAnswers{refused: refuse(BadInput, "", m.err.Error())})
			a.rt.releaseSlots(open.reservation, nil)
			open.reservation = nil
		}
		if errors.Is(m.err, persistence.ErrSchema) { // it stays so until the schema is migrated
			for _, q := range open.questions {
				a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", m.err.Error()), err: m.err})
			}
			a.rt.releaseSlots(open.reservation, nil)
			open.reservation = nil
		}
		a.carryover.giveUp()
		a.wait(wait, !all)
		return
	}
	a.failures = 0
	a.narrow.stored(open.questions[0], a.rt.now().Sub(a.began))
	a.rt.boundary.sawDatabaseTime(m.value.Now, a.rt.now())
	a.handOver(open, m.value.Grants)
	a.carryover.open = nil // not before the tasks are handed over
	answers := m.value.Answers
	for _, q := range open.questions {
		q.asked = false
		n := len(q.triggers)
		if len(answers) < n {
			break // a store that answers too few: the rest is asked again
		}
		a.settle(q, answers[:n:n])
		answers = answers[n:]
	}
	a.rt.spread(m.value.Wake)
	a.flush()
}

// settle answers one question, or sets it aside while its key is busy.
func (a *intake) settle(q *question, answers []persistence.TriggerAnswer) {
	refused := refusalOf(q.triggers, answers)
	if refused == errKeyBusy {
		q.busy++
		q.held.Store(true)
		q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.busy))
		return
	}
	a.finish(q, triggerAnswers{answers: answers, refused: refused})
}

func (a *intake) finish(q *question, answer triggerAnswers) {
	result := "triggered"
	if answer.refused != nil {
		result = string(answer.refused.Code)
	}
	a.rt.meter.add(MetricTriggers, float64(len(q.triggers)), result)
	q.done = true
	a.carryover.rows -= len(q.triggers)
	q.answer(answer)
}

// dropLate answers what has waited for too long, and takes off what is answered.
func (a *intake) dropLate() {
	now := a.rt.now()
	for _, q := range a.carryover.waiting {
		switch {
		case q.done, q.asked:
		case q.gone != nil && q.gone():
			a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", "the caller has gone")})
		case !q.deadline.IsZero() && now.After(q.deadline):
			a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", "not stored in time: trigger again with the same key")})
		}
	}
	a.carryover.waiting = slices.DeleteFunc(a.carryover.waiting, func(q *question) bool { return q.done })
}

// wait puts off the next trigger call. Idle is a wait only for what was set aside: it ends
// early when something else comes.
func (a *intake) wait(d time.Duration, idle bool) {
	a.pause, a.idle = a.rt.numbers.next(), idle
	a.rt.after(d, a.self, &intakePause{number: a.pause})
}

// waitNoLonger ends an idle wait, unless what has come is to be set aside, too.
func (a *intake) waitNoLonger(q *question) {
	if a.idle && !a.narrow.alone(q) {
		a.pause, a.idle = 0, false
	}
}

func (a *intake) onPause(m *intakePause) {
	if m.number == a.pause {
		a.pause, a.idle = 0, false
		a.flush()
	}
}
