package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

const (
	// leadAwayMax is how long a leader keeps the lead though the database
	// answers nothing that its pod asks through the pool: others may be better
	// off, and meanwhile no timer fires.
	leadAwayMax = 10 * time.Second
	// leadDoubt is the silence after which the leader, and whoever would like
	// to lead, asks for nothing but an answer.
	leadDoubt = 3 * time.Second
	// leadProbeTimeout ends that question. Each that is given up costs a
	// connection of the pool for a while.
	leadProbeTimeout = 5 * time.Second
	// leadUnfit is how long a pod that gave the lead away lets others go first.
	leadUnfit = 30 * time.Second
	// noEpoch is the epoch of no leader.
	noEpoch = -1
	// echoBytes is how large a question for an answer is: larger than any packet, so
	// that it is lost where large ones are.
	echoBytes = 16 << 10
)

// probed is the answer to a probe.
type probed struct{}

// probe asks what a leader asks, through the pool, under an epoch that is
// refused: any answer will do.
func (a *leader) probe() {
	if a.probing != 0 {
		return
	}
	a.probing = askProbe(a.rt, a.self)
}

// askProbe asks for nothing but an answer, first a small one and then a large one.
func askProbe(rt *runtime, to *PID) int64 {
	store, echo := rt.ports.Store, rt.ports.Echo
	return ask(rt, to, "probe", leadProbeTimeout, func(ctx context.Context) (probed, error) {
		_, err := store.FireTimers(ctx, noEpoch, 1)
		if echo != nil && persistence.Answered(err) {
			err = echo(ctx, echoBytes)
		}
		return probed{}, err
	})
}

// onProbed goes on with the campaign that waits for it.
func (a *leader) onProbed(m *answered[probed]) {
	if m.number != a.probing {
		return
	}
	a.probing = 0
	if !persistence.Answered(m.err) {
		a.rt.storeFailed("probe", m.err)
		a.tried = true
	}
	a.campaign()
}

// others reports whether other pods live, as far as is known.
func (a *leader) others() bool { return a.rt.meter.value(MetricPods) > 1 }

// cutOff reports whether the pod would be of no use as a leader: the database
// answers nothing that it asks through the pool. It finds out anew, and
// campaigns once anything was answered. One that lets others go first looks
// again as often as one that has tried in vain. A pod without others leads all
// the same.
func (a *leader) cutOff() bool {
	now := a.rt.now()
	switch {
	case !a.others():
		return false
	case now.Before(a.unfit):
		a.tried = true
		a.campaign()
		return true
	case a.rt.reach.silence(now) < leadDoubt:
		return false
	}
	a.probe()
	return true
}

// yields gives the lead away if nothing is done under it while others may be
// better off, and reports whether it has. The term lives on a connection of its
// own, so nobody else would find out. A statement that is slow is no reason: the
// probe is answered meanwhile.
func (a *leader) yields(ctx actorContext) bool {
	now := a.rt.now()
	silence := a.rt.reach.silence(now)
	if silence >= leadDoubt {
		a.probe()
	}
	silence = max(silence, a.rt.timers.silence(now), a.rt.house.silence(now))
	if silence < leadAwayMax || !a.others() {
		return false
	}
	a.unfit = now.Add(leadUnfit)
	a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
		"gives the lead away: the database does not answer what a leader asks through the pool of this pod; look at what is between them",
		slog.Int64("pod_id", a.pod), slog.Int64("epoch", a.carryover.term.Epoch()), slog.Duration("silence", silence))
	a.endTerm(ctx)
	return true
}
