package actors

import (
	"context"
	"log/slog"

	"github.com/troupe-dev/troupe/persistence"
)

// poolDeadMax is how long a pod that is answered beside its pool keeps its lease
// though nothing is answered through it.
const poolDeadMax = 6 * leadAwayMax

// cutOff reports whether the pod lets its lease go, though it could renew it: the
// database answers nothing that it asks through its pool, so that it cannot
// record what it holds, and others live who could. A pool that is only busy is no
// reason: the database is asked beside it. The pod asks for nothing but an
// answer meanwhile, and goes on, or joins again, once there is one.
func (a *pulse) cutOff() bool {
	now := a.rt.now()
	silence := a.rt.reach.silence(now)
	if silence < leadDoubt {
		a.letGo = false
		return false
	}
	a.ask()
	if silence < poolDeadMax {
		silence = min(silence, now.Sub(a.answered))
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

// ask asks through the pool, and the way that the pool connects without queueing
// for its connections.
func (a *pulse) ask() {
	if a.probing == 0 {
		a.probing = askProbe(a.rt, a.self)
	}
	if ping := a.rt.ports.Ping; a.pinging == 0 && ping != nil {
		a.pinging = askApart(a.rt, a.self, "ping_pool", leadProbeTimeout, func(ctx context.Context) (reached, error) {
			return reached{}, ping(ctx)
		})
	}
}

// reached is the answer to a question beside the pool.
type reached struct{}

func (a *pulse) onReached(m *answered[reached]) {
	if m.number != a.pinging {
		return
	}
	a.pinging = 0
	if persistence.Answered(m.err) {
		a.answered = a.rt.now()
	} else {
		a.rt.storeFailed("ping_pool", m.err)
	}
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
