package actors

import (
	"context"
	"log/slog"

	"github.com/troupe-dev/troupe/persistence"
)

// cutOff reports whether the pod lets its lease go, though it could renew it: the
// database answers nothing that it asks through its pool, so that it cannot
// record what it holds, and others live who could. It asks for nothing but an
// answer meanwhile, and goes on, or joins again, once there is one.
func (a *pulse) cutOff() bool {
	silence := a.rt.reach.silence(a.rt.now())
	if silence < leadDoubt {
		a.letGo = false
		return false
	}
	if a.probing == 0 {
		a.probing = askProbe(a.rt, a.self)
	}
	if silence < leadAwayMax || a.rt.meter.value(MetricPods) <= 1 {
		return false
	}
	if !a.letGo {
		a.letGo = true
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
			"lets its lease go, so that others take its tasks over: the database answers nothing that this pod asks through its pool; look at what is between them",
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
