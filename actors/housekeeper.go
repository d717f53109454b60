package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// housekeeper looks after what no pod looks after: the tasks of dead pods,
// tasks that no living pod can execute, and runs that have ended.
//
// Owns: when it looks next; the one call under way.
// Parent: leader.
// Accepts: nothing.
// Sends: TermDeposed, WorkReady, TablesChanged.
// On failure: restart with backoff; it begins with a look.
type housekeeper struct {
	rt       *runtime
	epoch    int64
	number   int64     // of the call under way; 0: none
	limit    int       // of that call
	asked    time.Time // when that for dead pods began
	expireAt time.Time
	parkAt   time.Time
	history  history
	due      int64
	live     int     // living pods at the last look
	dead     []int64 // pods that were declared dead by then
	failures int
}

type houseDue struct{ number int64 }

func newHousekeeper(rt *runtime, epoch int64) func() receiver {
	return func() receiver { return &housekeeper{rt: rt, epoch: epoch} }
}

// Receive implements protoactor's Actor.
func (a *housekeeper) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		now := a.rt.now()
		a.rt.house.reset()
		a.expireAt, a.parkAt = now, now
		a.history = newHistory(now)
		a.next()
	case *houseDue:
		if msg.number == a.due {
			a.next()
		}
	case *answered[persistence.Expired]:
		a.onExpired(msg)
	case *answered[persistence.Parked]:
		a.onParked(msg)
	case *answered[persistence.Rotated]:
		a.onRotated(msg)
	case *answered[persistence.Archived]:
		a.onArchived(msg)
	case *answered[persistence.Dropped]:
		a.onDropped(msg)
	case *answered[purged]:
		a.onPurged(msg)
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("housekeeper", msg)
	}
}

// next does what is due, one call at a time, or sleeps until something is.
func (a *housekeeper) next() {
	if a.number != 0 {
		return
	}
	now := a.rt.now()
	// After an outage, or once the database's clock has leapt, every lease looks old.
	// Nobody is expired before the others had time to renew.
	since := a.rt.boundary.connectedSince()
	if since.IsZero() {
		since = now
	}
	leap := a.rt.boundary.leaps()
	by := leap.latest(now)
	if leap.at.After(since) {
		since = leap.at
	}
	if safe := since.Add(a.rt.config.LeaseTTL); a.expireAt.Before(safe) {
		a.expireAt = safe
	}
	if !a.expireAt.After(now) || !a.parkAt.After(now) {
		a.rt.house.asked(now)
	}
	switch {
	case !a.expireAt.After(now):
		epoch, lost, limit := a.epoch, a.rt.config.MaxLost, a.rt.batch("expire one", a.rt.expiring.begin(expireBatch, now))
		a.limit, a.asked = limit, now
		a.number = ask(a.rt, a.rt.team.housekeeper, "expire_pods", storeTimeout, func(ctx context.Context) (persistence.Expired, error) {
			return a.rt.ports.Store.ExpirePods(ctx, epoch, lost, limit, by)
		})
	case !a.parkAt.After(now):
		epoch, limit := a.epoch, a.rt.batch("park one", max(a.rt.parking.begin(parkBatch, now), parkLeast))
		a.limit = limit
		a.number = ask(a.rt, a.rt.team.housekeeper, "park_tasks", storeTimeout, func(ctx context.Context) (persistence.Parked, error) {
			return a.rt.ports.Store.ParkTasks(ctx, epoch, limit)
		})
	case a.nextHistory(now):
	default:
		a.sleep(min(a.expireAt.Sub(now), a.parkAt.Sub(now), a.history.next().Sub(now)))
	}
}

func (a *housekeeper) sleep(d time.Duration) {
	a.due = a.rt.numbers.next()
	a.rt.after(d, a.rt.team.housekeeper, &houseDue{number: a.due})
}

func (a *housekeeper) onExpired(m *answered[persistence.Expired]) {
	if m.number != a.number {
		return
	}
	a.rt.expiring.ended(m.value.Tasks, m.err, a.rt.now())
	if a.failed("expire_pods", m.err, &a.expireAt) {
		return
	}
	expired := &m.value
	for _, pod := range expired.Pods {
		if !slices.Contains(a.dead, pod) { // one may be there for long, if not all that it held can be taken
			a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "pod declared dead", slog.Int64("pod_id", pod))
		}
	}
	a.dead = expired.Pods
	a.rt.spread(expired.Wake)
	now := a.rt.now()
	a.rt.sawClock(expired.Now, a.asked)
	a.expireAt = now.Add(a.rt.config.LeaseTTL)
	if !expired.NextExpiry.IsZero() {
		in := expired.NextExpiry.Sub(expired.Now) + expiryMargin
		a.expireAt = now.Add(min(max(in, expiryMargin), a.rt.config.LeaseTTL+expiryMargin)) // the clock may go back
	}
	if expired.Live != a.live {
		a.live, a.parkAt = expired.Live, now // handlers come and go with pods
	}
	if expired.Tasks >= a.limit {
		a.expireAt = now
	}
	a.next()
}

// leapShare is what part of a lease the database's clock goes ahead of a pod's at most,
// between two looks, if it does not leap. A pod renews three times as often, so that one
// that lives has more than that left.
const leapShare = 5

// expiryMargin is how long after the end of a lease the housekeeper looks.
const expiryMargin = 20 * time.Millisecond

func (a *housekeeper) onParked(m *answered[persistence.Parked]) {
	if m.number != a.number {
		return
	}
	moved := m.value.Parked + m.value.Unparked
	a.rt.parking.ended(moved, m.err, a.rt.now())
	if a.failed("park_tasks", m.err, &a.parkAt) {
		return
	}
	a.rt.spread(m.value.Wake)
	a.parkAt = a.rt.now().Add(parkEvery)
	if moved >= a.limit {
		a.parkAt = a.rt.now()
	}
	a.next()
}

// failed ends a call, and reports whether it failed. It is made again soon, and
// keeps nothing else from being done meanwhile.
func (a *housekeeper) failed(name string, err error, again *time.Time) bool {
	a.number = 0
	a.rt.house.ended(err)
	switch {
	case errors.Is(err, persistence.ErrDeposed):
		a.rt.send(a.rt.team.leader, &messages.TermDeposed{Epoch: a.epoch})
		return true
	case err != nil:
		a.failures++
		a.rt.storeFailed(name, err)
		*again = a.rt.now().Add(a.rt.retryDelay(a.failures))
		a.next()
		return true
	}
	a.failures = 0
	return false
}
