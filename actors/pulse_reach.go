package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// silenceMin is the silence through its pool below which a pod keeps its lease, however
// short that is: a locked table answers with a refusal after two seconds, and a call may
// wait for the connection of another one that waits so.
const silenceMin = 5 * time.Second

// silenceMax is the silence through its pool after which a pod lets its lease go.
func (c Config) silenceMax() time.Duration { return max(c.LeaseTTL, silenceMin) }

// silence is for how long the database has answered nothing that the pod asked through
// its pool, or no question as large as the pod's work.
func (rt *runtime) silence(now time.Time) time.Duration {
	return max(rt.reach.silence(now), rt.probes.silence(now))
}

// cutOff reports whether the pod lets its lease go, though it could renew it: the
// database answers nothing that it asks through its pool, so that it cannot record what
// it holds, and others live who could. A pool that is so busy that it answers nothing
// for a whole lease is cut off, too. The pod asks for nothing but an answer meanwhile,
// and goes on, or joins again, once there is one.
func (a *pulse) cutOff() bool {
	now := a.rt.now()
	silence := a.rt.silence(now)
	if max(silence, a.rt.reach.oldest(now)) >= leadDoubt {
		a.ask(now)
	}
	if silence < a.rt.config.silenceMax() || a.rt.meter.value(MetricPods) <= 1 {
		a.letGo = false
		return false
	}
	if !a.letGo {
		a.letGo = true
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
			"lets its lease go, so that others take its tasks over: the database answers nothing that this pod asks through its pool, or nothing that is large; look at what is between them",
			slog.Int64("pod_id", a.pod), slog.Duration("silence", silence))
	}
	return true
}

// ask asks for an answer through the pool. A network may pass what is small and drop
// what is large, so the question is as large as work is. It touches no table, and a slow
// answer is one: the question ends when the lease would.
func (a *pulse) ask(now time.Time) {
	if a.probing != 0 {
		return
	}
	a.rt.probes.asked(now)
	echo := a.rt.ports.Echo
	if echo == nil {
		a.probing = askProbe(a.rt, a.self)
		return
	}
	a.probing = ask(a.rt, a.self, "probe", a.rt.config.silenceMax(), func(ctx context.Context) (probed, error) {
		return probed{}, echo(ctx, echoBytes)
	})
}

func (a *pulse) onProbed(m *answered[probed]) {
	if m.number != a.probing {
		return
	}
	a.probing = 0
	a.rt.probes.ended(m.err)
	if !persistence.Answered(m.err) {
		a.rt.storeFailed("probe", m.err)
		return
	}
	if a.letGo { // do not wait for the next pulse
		a.onCheckCancels()
	}
}
