package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// housekeeper takes over the tasks of dead pods, parks tasks that no living pod can
// execute, and archives runs that have ended.
//
// Owns: when it looks next; the one call under way.
// Parent: leader.
// Accepts: nothing.
// Sends: TermDeposed, WorkReady, TablesChanged.
// On failure: restart with backoff; it begins with a look.
type housekeeper struct {
	base
	store    housePorts
	epoch    int64
	limits   *termLimits
	call     call
	limit    int       // of that call
	asked    time.Time // when that for dead pods began
	expireAt time.Time
	parkAt   time.Time
	history  history
	due      timer
	live     int     // living pods at the last look
	dead     []int64 // pods that were declared dead by then
}

// housePorts are the ports of a housekeeper.
type housePorts struct {
	persistence.Housekeeping
	persistence.History
	persistence.DeadLetters
}

func newHousekeeper(rt *runtime, store housePorts, epoch int64, limits *termLimits) func() receiver {
	return func() receiver {
		return &housekeeper{base: base{rt, rt.addresses.housekeeper}, store: store, epoch: epoch, limits: limits}
	}
}

// Receive implements protoactor's Actor.
func (a *housekeeper) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		now := a.rt.now()
		a.expireAt, a.parkAt = now, now
		a.rt.status.with(func(f *podFacts) { f.parked = "" }) // what another term has found
		a.history = newHistory(now)
		a.next()
	case *happened:
		a.handle(msg)
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("housekeeper", msg)
	}
}

// next does what is due, one call at a time, or sleeps until something is.
func (a *housekeeper) next() {
	if a.call.open() {
		return
	}
	now := a.rt.now()
	// After an outage, or a step of the database's clock, every lease looks old. No pod is
	// declared dead before all had time to renew.
	var since time.Time
	a.rt.vitals.with(func(v *vitals.Vitals) { since = v.ConnectedSince() })
	if since.IsZero() {
		since = now
	}
	clock := a.rt.clockSteps()
	by := clock.UpperBound(now)
	if clock.At.After(since) {
		since = clock.At
	}
	if safe := since.Add(a.rt.config.LeaseTTL); a.expireAt.Before(safe) {
		a.expireAt = safe
	}
	switch {
	case !a.expireAt.After(now):
		epoch, lost, limit := a.epoch, a.rt.config.MaxLost, a.rt.batch("expire one", a.limits.expiries.Begin(expireBatch, now))
		a.limit, a.asked = limit, now
		ask(&a.base, &a.call, "expire_pods", storeTimeout, func(ctx context.Context) (persistence.Expired, error) {
			return a.store.ExpirePods(ctx, epoch, lost, limit, by)
		}, a.onExpired)
	case !a.parkAt.After(now):
		epoch, limit := a.epoch, a.rt.batch("park one", max(a.limits.parking.Begin(parkBatch, now), parkLeast))
		a.limit = limit
		ask(&a.base, &a.call, "park_tasks", storeTimeout, func(ctx context.Context) (persistence.Parked, error) {
			return a.store.ParkTasks(ctx, epoch, limit)
		}, a.onParked)
	case a.nextHistory(now):
	default:
		a.due.set(&a.base, min(a.expireAt.Sub(now), a.parkAt.Sub(now), a.history.next().Sub(now)), a.next)
	}
}

func (a *housekeeper) onExpired(expired persistence.Expired, err error) {
	a.limits.expiries.Ended(expired.Tasks, a.rt.now(), err)
	if a.failed("expire_pods", err, &a.expireAt) {
		return
	}
	for _, pod := range expired.Pods {
		if !slices.Contains(a.dead, pod) { // a pod is listed again while some of its tasks cannot be taken
			a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "pod declared dead", slog.Int64("pod_id", pod))
		}
	}
	a.dead = expired.Pods
	a.rt.announce(expired.Wake)
	now := a.rt.now()
	a.rt.observeClock(expired.Now, a.asked)
	a.expireAt = now.Add(a.rt.config.LeaseTTL)
	if !expired.NextExpiry.IsZero() {
		in := expired.NextExpiry.Sub(expired.Now) + expiryMargin
		a.expireAt = now.Add(min(max(in, expiryMargin), a.rt.config.LeaseTTL+expiryMargin)) // the clock may go back
	}
	if expired.Live != a.live {
		a.live, a.parkAt = expired.Live, now // handlers change with the pods
	}
	if expired.Tasks >= a.limit {
		a.expireAt = now
	}
	a.next()
}

// clockDriftShare is the part of a lease by which the database's clock may run ahead of
// a pod's between two observations. A pod renews three times as often, so a living pod
// has more than that left.
const clockDriftShare = 5

// expiryMargin is how long after the end of a lease the housekeeper looks.
const expiryMargin = 20 * time.Millisecond

func (a *housekeeper) onParked(parked persistence.Parked, err error) {
	moved := parked.Parked + parked.Unparked
	a.limits.parking.Ended(moved, a.rt.now(), err)
	if a.failed("park_tasks", err, &a.parkAt) {
		return
	}
	a.rt.announce(parked.Wake)
	if parked.Parked > 0 {
		a.rt.recorder.add(MetricParked, float64(parked.Parked))
	}
	a.tellParked(parked.Work)
	a.parkAt = a.rt.now().Add(parkEvery)
	if moved >= a.limit {
		a.parkAt = a.rt.now()
	}
	a.next()
}

// tellParked says which work no living pod can execute: in the log once an hour, and in the
// health of the pod as long as it is so and the pod leads.
func (a *housekeeper) tellParked(work []persistence.ParkedWork) {
	a.rt.status.with(func(f *podFacts) { f.parked = parkedTrouble(work) })
	var news []persistence.ParkedWork
	a.rt.parkedSaid.with(func(s *parkedSaid) {
		if *s == nil {
			*s = parkedSaid{}
		}
		news = s.news(work, a.rt.now())
	})
	for _, w := range news {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "no living pod can execute a step: "+parkedRemedy,
			slog.String("workflow", w.Workflow), slog.String("step", w.Step), slog.String("definition", w.Definition.String()),
			slog.String("tasks", parkedCount(w)))
	}
}

// failed ends a call, and reports whether it failed. It is made again soon, or when it is
// due again (nil), and other work does not wait for it.
func (a *housekeeper) failed(name string, err error, again *time.Time) bool {
	switch {
	case errors.Is(err, persistence.ErrDeposed):
		a.rt.send(a.rt.addresses.leader, &messages.TermDeposed{Epoch: a.epoch})
		return true
	case again == nil:
		if err != nil {
			a.rt.storeFailed(name, err)
		}
	default:
		if wait, failed := a.call.failed(a.rt, name, err); failed {
			*again = a.rt.now().Add(wait)
		}
	}
	if err != nil {
		a.next()
	}
	return err != nil
}

// termLimits bound the batches of a leader's actors, over all of its terms.
type termLimits struct{ timers, expiries, parking vitals.BatchLimit }
