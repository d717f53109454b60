package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// timekeeper fires due timers. It sleeps until the earliest that it knows of,
// and is told of earlier ones.
//
// Owns: the instant of its next look; the call under way.
// Parent: leader.
// Accepts: TimerSet.
// Sends: TermDeposed, WorkReady, TablesChanged.
// On failure: restart with backoff; it begins with a look.
type timekeeper struct {
	rt       *runtime
	store    persistence.Timekeeping
	epoch    int64
	limit    *vitals.BatchLimit
	number   int64     // of the call under way; 0: none
	next     time.Time // of the next look, by the database's clock
	due      int64     // number of the timer that counts
	earlier  time.Time // told of during the call
	told     bool
	failures int
	locked   int // calls in a row that found only locked timers
}

// timerLocked is the wait for a due timer whose run another transaction holds, the
// first time. It doubles up to 2^timerPatience of that.
const (
	timerLocked   = 20 * time.Millisecond
	timerPatience = 5
)

type fireDue struct{ number int64 }

func newTimekeeper(rt *runtime, store persistence.Timekeeping, epoch int64, limits *termLimits) func() receiver {
	return func() receiver { return &timekeeper{rt: rt, store: store, epoch: epoch, limit: &limits.timers} }
}

// Receive implements protoactor's Actor.
func (a *timekeeper) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.fire()
	case *fireDue:
		if msg.number == a.due {
			a.fire()
		}
	case *answered[persistence.Fired]:
		a.onFired(msg)
	case *messages.TimerSet:
		a.onTimerSet(instant(msg.GetAt()))
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("timekeeper", msg)
	}
}

func (a *timekeeper) fire() {
	if a.number != 0 {
		return
	}
	a.told = false
	epoch, limit := a.epoch, a.rt.batch("fire one", a.limit.Begin(timerBatch, a.rt.now()))
	a.number = ask(a.rt, a.rt.addresses.timekeeper, "fire_timers", storeTimeout, func(ctx context.Context) (persistence.Fired, error) {
		return a.store.FireTimers(ctx, epoch, limit)
	})
}

func (a *timekeeper) onFired(m *answered[persistence.Fired]) {
	if m.number != a.number {
		return
	}
	a.number = 0
	a.limit.Ended(m.value.Count, a.rt.now(), m.err)
	switch {
	case errors.Is(m.err, persistence.ErrDeposed):
		a.rt.send(a.rt.addresses.leader, &messages.TermDeposed{Epoch: a.epoch})
		return
	case m.err != nil:
		a.failures++
		a.rt.storeFailed("fire_timers", m.err)
		a.sleep(a.rt.retryDelay(a.failures))
		return
	}
	a.failures = 0
	fired := &m.value
	a.rt.status.with(func(f *podFacts) { f.sawDatabaseTime(fired.Now, a.rt.now()) })
	a.rt.recorder.add(MetricTimersFired, float64(fired.Count))
	if fired.Orphans > 0 {
		a.rt.recorder.add(MetricTimersOrphaned, float64(fired.Orphans))
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "timers removed: the rows of their runs had been deleted by hand",
			slog.Int("timer_count", fired.Orphans))
	}
	for _, late := range fired.Late {
		a.rt.recorder.observe(MetricTimerLateness, late.Seconds())
	}
	a.rt.announce(fired.Wake)
	a.next = fired.Next
	switch {
	case fired.More:
		a.next, a.locked = fired.Now, 0
	case fired.Count == 0 && !a.next.IsZero() && !a.next.After(fired.Now):
		a.next = fired.Now.Add(timerLocked << min(a.locked, timerPatience)) // it is due, and its run is locked
		a.locked++
	default:
		a.locked = 0
	}
	if a.told {
		a.told = false
		a.earliest(a.earlier)
	}
	a.rest()
}

// onTimerSet looks earlier if need be. The zero instant means now.
func (a *timekeeper) onTimerSet(at time.Time) {
	if a.number != 0 {
		if !a.told || at.Before(a.earlier) {
			a.told, a.earlier = true, at
		}
		return
	}
	if at.IsZero() {
		a.fire()
		return
	}
	if a.earliest(at) {
		a.rest()
	}
}

func (a *timekeeper) earliest(at time.Time) bool {
	if !a.next.IsZero() && !at.Before(a.next) {
		return false
	}
	a.next = at
	if at.IsZero() {
		a.next = time.Unix(1, 0)
	}
	return true
}

// rest sleeps until the next timer is due; without one the sweep wakes it.
func (a *timekeeper) rest() {
	if a.next.IsZero() {
		a.due = 0
		return
	}
	a.sleep(max(a.next.Sub(a.rt.databaseTime()), 0))
}

func (a *timekeeper) sleep(d time.Duration) {
	a.due = a.rt.numbers.next()
	a.rt.after(min(d, a.rt.config.Sweep), a.rt.addresses.timekeeper, &fireDue{number: a.due})
}
