package actors

import (
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
)

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
		a.later(delay, func() { a.onStandInDue(q) })
	}
}

// onStandInDue claims in place of the pods that are nearer to a wake.
func (a *claimer) onStandInDue(q *queueScan) {
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
		a.later(at.Sub(a.rt.now()), func() { a.onFullScanDue(q, at) })
	}
}

func (a *claimer) onFullScanDue(q *queueScan, at time.Time) {
	if !at.Equal(q.timerAt) {
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

// resumePause is the least time between two ends of a txPause.
const resumePause = time.Second

// txPause is whether this pod leaves steps with a transaction to other pods.
type txPause struct {
	on    bool
	timer timer     // of the next claim
	due   time.Time // when it fires
	last  time.Time // when they were claimed again
}

// claimable returns the handlers to claim for. When all of them are claimed for again,
// every queue gets a full scan, at most once per resumePause: the skipped tasks stand below
// scanFrom, and no wake may come for them.
func (a *claimer) claimable() []int32 {
	now, short := a.rt.now(), &a.txPause
	wait := a.rt.txWait()
	if short.on {
		wait = max(wait, short.last.Add(resumePause).Sub(now))
	}
	switch {
	case wait > 0:
		short.on = true
		a.comeBack(now.Add(wait))
		return a.rt.withoutTx
	case short.on:
		short.on, short.last = false, now
		for _, q := range a.queues {
			q.reset()
			q.woken = true
		}
	}
	return a.rt.handlers
}

// comeBack claims at an instant, unless it will earlier.
func (a *claimer) comeBack(due time.Time) {
	if pause := &a.txPause; !pause.timer.isSet() || due.Before(pause.due) {
		pause.due = due
		pause.timer.set(&a.base, due.Sub(a.rt.now()), a.claim)
	}
}
