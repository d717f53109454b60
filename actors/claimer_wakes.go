package actors

import (
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
)

// wakeDue is a wake that others were nearer to.
type wakeDue struct{ queue *queueView }

// wholeDue is the time to look at all of a queue.
type wholeDue struct{ queue *queueView }

// onWorkReady notes a wake. Pods that hear of the same tasks let the nearest
// go first.
func (a *claimer) onWorkReady(m *messages.WorkReady) {
	for _, q := range a.queues {
		if m.GetQueue() != "" && m.GetQueue() != q.name {
			continue
		}
		if m.GetForeign() {
			a.later(q, int(m.GetCount()), m.GetKey())
			continue
		}
		q.woken = true
		q.own += int(m.GetCount())
		q.ownAt = a.rt.now()
	}
	a.claim()
}

// later puts a wake off that others are nearer to, or that this pod has acted
// on already. Whoever claims meanwhile makes it void.
func (a *claimer) later(q *queueView, count int, key uint64) {
	now := a.rt.now()
	if now.Sub(q.ownAt) > ownMemory {
		q.own = 0
	}
	delay, ok := ownEcho, true
	switch echo := a.pods <= 1 || count > 0 && q.own >= count; {
	case echo:
		q.own = max(q.own-count, 0)
	case a.pods == 2: // the other one may be full, and one empty claim costs less than waiting for it
		delay = 0
	case a.free[q.pool] <= 0: // it looks once it is not full any more
		delay = 0
	default:
		delay, ok = cluster.AnswerDelay(a.order.Rank(q.name, key), count, a.rt.config.Slots)
		if delay > 0 {
			delay = max(delay, standInPause-now.Sub(q.asked))
		}
	}
	if !ok {
		return
	}
	if delay == 0 {
		q.woken = true
		return
	}
	due := now.Add(delay)
	if q.later.IsZero() {
		q.laterFrom = now
	}
	if q.later.IsZero() || due.Before(q.later) {
		q.later = due
		a.rt.after(delay, a.self, &wakeDue{queue: q})
	}
}

func (a *claimer) onWakeDue(m *wakeDue) {
	q := m.queue
	if q.later.IsZero() || a.rt.now().Before(q.later) {
		return
	}
	q.later = time.Time{}
	q.woken = true
	a.claim()
}

func (a *claimer) wakeAll() {
	for _, q := range a.queues {
		q.woken = true
	}
	a.claim()
}

// onWholeDue looks at everything, unless a claim has done so since, and was sure.
func (a *claimer) onWholeDue(m *wholeDue) {
	q := m.queue
	q.looking = false
	switch {
	case !a.rt.now().Before(q.whole):
		q.woken = true
		a.claim()
	case q.unsure:
		a.lookLater(q)
	}
}

// lookLater has all of a queue looked at when that is due.
func (a *claimer) lookLater(q *queueView) {
	if !q.looking {
		q.looking = true
		a.rt.after(q.whole.Sub(a.rt.now()), a.self, &wholeDue{queue: q})
	}
}

func (a *claimer) lookAgain() {
	for _, q := range a.queues {
		q.forget()
	}
}
