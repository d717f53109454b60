package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
)

const (
	// leadAwayMax is how long a leader keeps the lead without any answer through its pool.
	// Other pods may get answers, and meanwhile no timer fires.
	leadAwayMax = 10 * time.Second
	// leadDoubt is the silence after which a leader or a candidate sends a probe.
	leadDoubt = 3 * time.Second
	// leadProbeTimeout ends a probe. Each probe without an answer costs a connection of
	// the pool for a while.
	leadProbeTimeout = 5 * time.Second
	// leadUnfit is how long a pod that gave the lead away lets other pods go first.
	leadUnfit = 30 * time.Second
	// probeBytes is the size of a probe: larger than any packet, so that the probe is
	// lost where large messages are.
	probeBytes = 16 << 10
)

// probe asks the database for an answer, through the pool.
func (a *leader) probe() {
	if !a.prober.open() {
		askProbe(&a.base, &a.prober, a.lease, "probe", leadProbeTimeout, a.onProbed)
	}
}

// askProbe asks the database for an answer as large as those of work.
func askProbe(b *base, c *call, lease persistence.Lease, kind string, timeout time.Duration, then func(none, error)) {
	ask(b, c, kind, timeout, func(ctx context.Context) (none, error) { return none{}, lease.Ping(ctx, probeBytes) }, then)
}

// onProbed resumes the campaign that waits for the probe.
func (a *leader) onProbed(_ none, err error) {
	if !persistence.Answered(err) {
		a.rt.storeFailed("probe", err)
		a.tried = true
	}
	a.campaign()
}

// cutOff reports whether the pod cannot lead: its pool gets no answers. It probes, and
// campaigns once any call is answered. A pod that lets others go first tries as often as
// one that has lost an election. A pod without others leads all the same.
func (a *leader) cutOff() bool {
	now := a.rt.now()
	switch {
	case !a.others():
		return false
	case now.Before(a.unfit):
		a.tried = true
		a.campaign()
		return true
	case a.rt.silence() < leadDoubt:
		return false
	}
	a.probe()
	return true
}

// yields gives the lead away if the leader's calls get no answers and other pods live, and
// reports whether it did. The term has a connection of its own, so no other pod would
// notice. A slow statement is no reason: the probe is answered meanwhile.
func (a *leader) yields() bool {
	now := a.rt.now()
	silence := a.rt.silence()
	if silence >= leadDoubt {
		a.probe()
	}
	a.rt.vitals.with(func(v *vitals.Vitals) {
		silence = max(silence, v.SilenceOf(now, "fire_timers", "expire_pods", "park_tasks"))
	})
	if silence < leadAwayMax || !a.others() {
		return false
	}
	a.unfit = now.Add(leadUnfit)
	a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
		"gives the lead away: the database does not answer what a leader asks through the pool of this pod; check the network between them",
		slog.Int64("pod_id", a.pod), slog.Int64("epoch", a.carryover.term.Epoch()), slog.Duration("silence", silence))
	a.endTerm()
	return true
}

// leaderCalls returns the calls that a pod makes only while it leads.
func leaderCalls() []string {
	return []string{
		"fire_timers", "expire_pods", "park_tasks", "rotate_events", "archive_runs", "drop_history", "purge_dead_letters",
	}
}
