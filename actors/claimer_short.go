package actors

import "time"

// shortOver is the time to look whether steps with a transaction are claimed again.
type shortOver struct{ due time.Time }

// resumePause is the least time between two ends of a shortness.
const resumePause = time.Second

// shortness is whether steps with a transaction are left to others now.
type shortness struct {
	on   bool
	due  time.Time // of the next shortOver, if one is under way
	stop func()    // ends it; nil: none is
	last time.Time // when they were claimed again
}

// claimable returns the handlers to claim for. Once those that were left out can be
// executed again everything is looked at: what was passed over stands below the hints,
// and no wake may come for it. That is done once per resumePause at most.
func (a *claimer) claimable() []int32 {
	now, short := a.rt.now(), &a.short
	wait := a.rt.unbegun.wait(now)
	if short.on {
		wait = max(wait, short.last.Add(resumePause).Sub(now))
	}
	switch {
	case wait > 0:
		short.on = true
		a.comeBack(now.Add(wait))
		return a.rt.plain
	case short.on:
		short.on, short.last = false, now
		a.resetScans()
		for _, q := range a.queues {
			q.woken = true
		}
	}
	return a.rt.handlers
}

// comeBack has the claimer look again at an instant, or earlier.
func (a *claimer) comeBack(due time.Time) {
	short := &a.short
	switch {
	case short.stop == nil:
	case !due.Before(short.due):
		return
	default:
		short.stop()
	}
	short.due = due
	short.stop = a.rt.after(due.Sub(a.rt.now()), a.self, &shortOver{due: due})
}

// onShortOver claims, unless it is one that was ended on its way.
func (a *claimer) onShortOver(m *shortOver) {
	if m.due.Equal(a.short.due) {
		a.short.stop = nil
		a.claim()
	}
}
