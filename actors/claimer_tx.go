package actors

import "time"

// txPauseOver is the timer of the check whether steps with a transaction are claimed again.
type txPauseOver struct{ due time.Time }

// resumePause is the least time between two ends of a txPause.
const resumePause = time.Second

// txPause is whether this pod leaves steps with a transaction to other pods.
type txPause struct {
	on   bool
	due  time.Time // of the next txPauseOver, if one is under way
	stop func()    // ends it; nil: none is under way
	last time.Time // when they were claimed again
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

// comeBack sets the timer to an instant, unless it is set to an earlier one.
func (a *claimer) comeBack(due time.Time) {
	short := &a.txPause
	switch {
	case short.stop == nil:
	case !due.Before(short.due):
		return
	default:
		short.stop()
	}
	short.due = due
	short.stop = a.rt.after(due.Sub(a.rt.now()), a.self, &txPauseOver{due: due})
}

// onTxPauseOver claims, unless the timer was stopped after it fired.
func (a *claimer) onTxPauseOver(m *txPauseOver) {
	if m.due.Equal(a.txPause.due) {
		a.txPause.stop = nil
		a.claim()
	}
}
