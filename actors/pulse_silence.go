package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
)

// silenceMin is the silence through its pool below which a pod keeps its lease, however
// short the lease: a locked table is answered by an error after two seconds, and a call
// may wait for the connection of another call.
const silenceMin = 5 * time.Second

// silenceMax is the silence through its pool after which a pod stops renewing its lease.
func (c Config) silenceMax() time.Duration { return max(c.LeaseTTL, silenceMin) }

// poolSilence returns how long the database has answered nothing that the pod asked
// through its pool, or no probe of the pulse.
func poolSilence(v *vitals.Vitals, now time.Time) time.Duration {
	return max(v.Silence(now), v.SilenceOf(now, pulseProbe))
}

// pulseProbe is the kind of call that a pulse makes to find out whether it is cut off.
const pulseProbe = "pulse_probe"

// cutOff reports whether the pod stops renewing its lease on purpose: its pool gets no
// answers, so it cannot record its tasks, and other pods could. A pool too busy to answer
// anything for a whole lease counts, too. Meanwhile the pod only probes. After an answer
// it renews again, or joins again.
func (a *pulse) cutOff() bool {
	var silence, oldest time.Duration
	a.rt.vitals.with(func(v *vitals.Vitals) { silence, oldest = poolSilence(v, a.rt.now()), v.Oldest(a.rt.now()) })
	if max(silence, oldest) >= leadDoubt && a.probing == 0 {
		a.probing = askProbe(a.rt, a.store, a.self, pulseProbe, a.rt.config.silenceMax())
	}
	if silence < a.rt.config.silenceMax() || a.rt.recorder.value(MetricPods) <= 1 {
		a.letGo = false
		return false
	}
	if !a.letGo {
		a.letGo = true
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
			"gives its lease up, so that other pods take its tasks over: the database answers nothing that this pod asks through its pool, or nothing large; check the network between them",
			slog.Int64("pod_id", a.pod), slog.Duration("silence", silence))
	}
	return true
}

func (a *pulse) onProbed(m *answered[probed]) {
	if m.number != a.probing {
		return
	}
	a.probing = 0
	if !persistence.Answered(m.err) {
		a.rt.storeFailed("probe", m.err)
		return
	}
	if a.letGo { // do not wait for the next pulse
		a.onCheckCancels()
	}
}
