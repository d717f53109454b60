package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// giveUp forgets a batch, unless tasks may have been granted with it: only a repetition
// can tell.
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
	a.rt.recorder.set(MetricTriggerPending, float64(a.carryover.rows))
	if a.busy() {
		return
	}
	if a.carryover.open != nil || a.carryover.rows == 0 || !a.linger.begin(&a.base, a.carryover.rows, a.crowd > 1, a.begin) {
		a.begin()
	}
}

// busy reports whether an answer or a timer will begin the next batch.
func (a *intake) busy() bool { return a.call.open() || a.pause.isSet() || a.slotRequest.waits() }

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

// next returns the questions of the next batch. If there are none, it waits for resting
// questions, or for the next that comes.
func (a *intake) next() []*question {
	a.dropLate()
	batch, wait := nextBatch(a.carryover.waiting, &a.limit, a.rt.now())
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

// again repeats the call of unknown outcome, without questions whose callers have left,
// and reports whether any is left. Otherwise tasks that were granted after all are found
// unheld.
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
	a.rt.recorder.observe(MetricTriggerBatch, float64(len(rows)))
	take := open.take
	name := "trigger_runs"
	if q := open.questions[0]; a.limit.alone(q) && !q.small() {
		name = triggerLarge
	}
	a.began = a.rt.now()
	a.limit.begin(open.questions[0], len(rows), a.began)
	ask(&a.base, &a.call, name, storeTimeout, func(ctx context.Context) (persistence.Triggers, error) {
		return a.port.TriggerRuns(ctx, rows, take)
	}, a.onTriggered)
}

// onTriggered answers a batch, or keeps all of it to be stored again: the run
// ids stay the same, so a batch that was stored after all is answered as such.
func (a *intake) onTriggered(stored persistence.Triggers, err error) {
	open := a.carryover.open
	if err != nil {
		a.triggerFailed(open, err)
		return
	}
	a.call.failures = 0
	a.limit.stored(open.questions[0], len(stored.Answers), a.rt.now())
	a.rt.status.with(func(f *podFacts) { f.sawDatabaseTime(stored.Now, a.rt.now()) })
	a.handOver(open, stored.Grants)
	a.carryover.open = nil // not before the tasks are handed over
	answers := stored.Answers
	for _, q := range open.questions {
		q.asked = false
		n := len(q.triggers)
		if len(answers) < n {
			break // the store answered too few: the rest is asked again
		}
		a.settle(q, answers[:n:n])
		answers = answers[n:]
	}
	a.rt.announce(stored.Wake)
	a.flush()
}

// triggerFailed keeps a batch whose call failed, unless a repetition cannot help.
func (a *intake) triggerFailed(open *openTrigger, err error) {
	a.call.failures++
	a.limit.Ended(0, a.rt.now(), err)
	name, wait, all := "trigger_runs", a.rt.retryDelay(a.call.failures), true
	switch {
	case errors.Is(err, persistence.ErrNoResources):
		if wait, all = a.lacksResources(open); !all {
			name = triggerLarge
		}
	case a.rt.now().Sub(a.began) >= vitals.SlowBatch:
		a.tookLong(open)
	}
	a.rt.storeFailed(name, err)
	var refused *Refusal
	switch {
	case errors.Is(err, persistence.ErrSchema): // until the schema is migrated
		refused = refuse(Unavailable, "", err.Error())
	case errors.Is(err, persistence.ErrBadRow) && len(open.questions) == 1:
		refused = refuse(BadInput, "", err.Error())
	}
	for _, q := range open.questions {
		q.failed(err)
		if refused != nil {
			answer := triggerAnswers{refused: refused}
			if refused.Code == Unavailable {
				answer.err = err
			}
			a.finish(q, answer)
		}
	}
	if refused != nil {
		a.dropReservation(open)
	}
	a.carryover.giveUp()
	a.wait(wait, !all)
}

// settle answers one question, or lets it rest while its key is locked.
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
	a.rt.recorder.add(MetricTriggers, float64(len(q.triggers)), result)
	for i := range answer.answers {
		if t, got := &q.triggers[i], answer.answers[i]; t.Signal != nil && got.Signal != 0 {
			a.rt.countSignal(signalAnswer{persistence.SignalAnswer{Result: got.Signal}, TriggerSignalRefusal(t, got), nil})
		}
	}
	q.done = true
	a.carryover.rows -= len(q.triggers)
	q.answer(answer)
}

// dropLate answers questions that have waited for too long, and removes answered ones.
func (a *intake) dropLate() {
	now := a.rt.now()
	for _, q := range a.carryover.waiting {
		switch {
		case q.done, q.asked:
		case q.left():
			a.finish(q, triggerAnswers{refused: refuseGone()})
		case q.late(now):
			a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", "not stored in time: trigger again with the same key")})
		}
	}
	a.carryover.waiting = slices.DeleteFunc(a.carryover.waiting, func(q *question) bool { return q.done })
}

// wait delays the next trigger call. An idle wait is for resting questions only: it ends
// early when another question comes.
func (a *intake) wait(d time.Duration, idle bool) {
	a.idle = idle
	a.pause.set(&a.base, d, func() {
		a.idle = false
		a.flush()
	})
}

// waitNoLonger ends an idle wait, unless the new question goes alone, too.
func (a *intake) waitNoLonger(q *question) {
	if a.idle && !a.limit.alone(q) {
		a.idle = false
		a.pause.clear()
	}
}
