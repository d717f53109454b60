package actors

import (
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
)

// triggerLimit bounds the triggers of a batch, and knows which questions are too large
// for the server. A too large question goes alone, in turns with all others.
type triggerLimit struct {
	vitals.BatchLimit

	rejected int  // questions in a row that the server lacked resources for, each alone
	lone     bool // the next batch is a question that goes alone, if there is one
}

// small reports whether hardly any question needs less: if the server lacks resources
// for it, it lacks them for all.
func (q *question) small() bool {
	return len(q.triggers) == 1 && q.bytes <= persistence.InlinePayloadMax
}

// alone reports whether a question goes alone.
func (l *triggerLimit) alone(q *question) bool {
	return q.lacks > 0 || len(q.triggers) > l.Cap(persistence.TriggerBatchMax)
}

// begin notes the start of a batch. A too large question says nothing about the limit.
func (l *triggerLimit) begin(first *question, rows int, now time.Time) {
	if !l.alone(first) {
		l.Begin(rows, now)
	}
}

// stored notes that a batch with this first question was stored.
func (l *triggerLimit) stored(first *question, rows int, now time.Time) {
	l.lone = !l.alone(first)
	l.Ended(rows, now, nil)
	l.rejected = 0
}

// lacksResources handles a batch that the server lacked resources for. Nothing of it is
// stored; tasks that an earlier call of unknown outcome granted are found unheld. A
// single question rests for a while. It returns how long the intake waits, and whether
// the server lacks resources for all questions.
func (a *intake) lacksResources(open *openTrigger) (wait time.Duration, all bool) {
	a.dropReservation(open)
	a.limit.lone = false
	if len(open.questions) > 1 {
		return 0, false
	}
	q := open.questions[0]
	q.lacks++
	q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.lacks))
	if a.limit.rejected++; a.limit.rejected > 1 {
		wait = a.rt.retryDelay(a.limit.rejected)
	}
	return wait, q.small()
}

// tookLong handles a batch that failed slowly. A smaller batch is another call, which
// does not return what this one granted, so a batch with reserved slots is first repeated as it
// was.
func (a *intake) tookLong(open *openTrigger) {
	open.long++
	if len(open.questions) > 1 && open.long > 1 {
		a.dropReservation(open)
	}
}

// nextBatch takes as many questions as fit into one transaction, in order, without those
// whose key is busy. At least one fits. If no question can be asked now, wait says when.
func nextBatch(waiting []*question, l *triggerLimit, now time.Time) (batch []*question, wait time.Duration) {
	rows, bytes, full := 0, 0, false
	var lone *question
	for _, q := range waiting {
		switch {
		case q.busyTo.After(now):
			if d := q.busyTo.Sub(now); wait == 0 || d < wait {
				wait = d
			}
		case l.alone(q):
			if lone == nil || q.busyTo.Before(lone.busyTo) {
				lone = q
			}
		case !full:
			full = len(batch) > 0 && (rows+len(q.triggers) > l.Cap(persistence.TriggerBatchMax) || bytes+q.bytes > batchBytesMax)
			if !full {
				batch = append(batch, q)
				rows += len(q.triggers)
				bytes += q.bytes
			}
		}
	}
	if lone != nil && (l.lone || len(batch) == 0) {
		return []*question{lone}, wait
	}
	return batch, wait
}
