package actors

import (
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
)

// standInDue is the timer of a claim in place of the pods that are nearer to a wake.
type standInDue struct{ queue *queueScan }

// fullScanDue is the timer of a full scan.
type fullScanDue struct {
	queue *queueScan
	at    time.Time
}

// onWorkReady notes a wake. If other pods hear of the same tasks, the nearest pods claim
// first.
func (a *claimer) onWorkReady(m *messages.WorkReady) {
	for _, q := range a.queues {
		if m.GetQueue() != "" && m.GetQueue() != q.name {
			continue
		}
		if m.GetForeign() {
			a.standIn(q, int(m.GetCount()), m.GetKey())
			continue
		}
		q.woken = true
		q.own += int(m.GetCount())
		q.ownAt = a.rt.now()
	}
	a.claim()
}

// standIn delays a wake that other pods are nearer to, or that this pod has acted on
// already. A full scan of the queue before then replaces the wake.
func (a *claimer) standIn(q *queueScan, count int, key uint64) {
	now := a.rt.now()
	if now.Sub(q.ownAt) > ownMemory {
		q.own = 0
	}
	delay, ok := ownEcho, true
	switch echo := a.pods <= 1 || count > 0 && q.own >= count; {
	case echo:
		q.own = max(q.own-count, 0)
	case a.pods == 2: // the other pod may be full, and an empty claim costs less than waiting for it
		delay = 0
	case a.free[q.pool] <= 0: // the claim waits for a free slot anyway
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
	if due := now.Add(delay); q.standInAt.IsZero() || due.Before(q.standInAt) {
		q.standInAt = due
		a.rt.after(delay, a.self, &standInDue{queue: q})
	}
}

func (a *claimer) onStandInDue(m *standInDue) {
	q := m.queue
	if q.standInAt.IsZero() || a.rt.now().Before(q.standInAt) {
		return
	}
	q.standInAt, q.woken = time.Time{}, true
	a.claim()
}

func (a *claimer) wakeAll() {
	for _, q := range a.queues {
		q.woken = true
	}
	a.claim()
}

// resetScans lets the next claim of every queue scan all of it.
func (a *claimer) resetScans() {
	for _, q := range a.queues {
		q.reset()
	}
}

// wakeForFullScan sets when a queue is woken for a full scan; zero: not at all.
func (a *claimer) wakeForFullScan(q *queueScan, at time.Time) {
	q.wakeAt = at
	if !at.IsZero() && (q.timerAt.IsZero() || at.Before(q.timerAt)) {
		q.timerAt = at
		a.rt.after(at.Sub(a.rt.now()), a.self, &fullScanDue{queue: q, at: at})
	}
}

func (a *claimer) onFullScanDue(m *fullScanDue) {
	q := m.queue
	if !m.at.Equal(q.timerAt) {
		return // replaced by an earlier timer
	}
	q.timerAt = time.Time{}
	switch {
	case q.wakeAt.IsZero():
	case a.rt.now().Before(q.wakeAt):
		a.wakeForFullScan(q, q.wakeAt)
	default:
		q.wakeAt, q.woken = time.Time{}, true
		a.claim()
	}
}
