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
	base
	store   persistence.Timekeeping
	epoch   int64
	limit   *vitals.BatchLimit
	call    call
	next    time.Time // of the next look, by the database's clock
	due     timer
	earlier time.Time // told of during the call
	told    bool
	locked  int // calls in a row that found only locked timers
}

// timerLocked is the wait for a due timer whose run another transaction holds, the
// first time. It doubles up to 2^timerPatience of that.
const (
	timerLocked   = 20 * time.Millisecond
	timerPatience = 5
)

func newTimekeeper(rt *runtime, store persistence.Timekeeping, epoch int64, limits *termLimits) func() receiver {
	return func() receiver {
		return &timekeeper{base: base{rt, rt.addresses.timekeeper}, store: store, epoch: epoch, limit: &limits.timers}
	}
}

// Receive implements protoactor's Actor.
func (a *timekeeper) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.fire()
	case *happened:
		a.handle(msg)
	case *messages.TimerSet:
		a.onTimerSet(instant(msg.GetAt()))
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("timekeeper", msg)
	}
}

func (a *timekeeper) fire() {
	if a.call.open() {
		return
	}
	a.told = false
	epoch, limit := a.epoch, a.rt.batch("fire one", a.limit.Begin(timerBatch, a.rt.now()))
	ask(&a.base, &a.call, "fire_timers", storeTimeout, func(ctx context.Context) (persistence.Fired, error) {
		return a.store.FireTimers(ctx, epoch, limit)
	}, a.onFired)
}

func (a *timekeeper) onFired(fired persistence.Fired, err error) {
	a.limit.Ended(fired.Count, a.rt.now(), err)
	if errors.Is(err, persistence.ErrDeposed) {
		a.rt.send(a.rt.addresses.leader, &messages.TermDeposed{Epoch: a.epoch})
		return
	}
	if wait, failed := a.call.failed(a.rt, "fire_timers", err); failed {
		a.sleep(wait)
		return
	}
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
	if a.call.open() {
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
		a.due.clear()
		return
	}
	a.sleep(max(a.next.Sub(a.rt.databaseTime()), 0))
}

func (a *timekeeper) sleep(d time.Duration) { a.due.set(&a.base, min(d, a.rt.config.Sweep), a.fire) }
