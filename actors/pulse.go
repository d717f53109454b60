package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// pulse keeps the pod's lease, and compares what the pod holds with the
// tables.
//
// Owns: the lease as this pod knows it; the renewal under way; tasks seen
// unheld once.
// Parent: pod.
// Accepts: HeldListed, CheckCancels.
// Sends: ListHeld, TasksLost, TasksUnheld, RunsCanceling, PodsCounted,
// LeaseFenced, LeaseRestored, PodDied.
// On failure: restart with backoff; it begins with a renewal.
type pulse struct {
	rt        *runtime
	self      *PID
	pod       int64
	store     persistence.Lease
	carryover *pulseState
	sent      time.Time             // of the renewal under way
	number    int64                 // 0: none
	progress  map[taskKey][]byte    // of held tasks, not stored yet
	storing   map[taskKey][]byte    // the same, in the renewal under way
	suspects  map[taskKey]bool      // unheld in the last renewal
	missed    map[taskKey]time.Time // held, but not by the table: since when
	tick      int64                 // of the timer that counts
	check     int64                 // of the lease check that counts
	soon      bool                  // a renewal was asked for out of turn
	failures  int
	claims    float64   // of this pod at the last renewal
	beat      time.Time // when that was
	waited    time.Time // when the pod was last seen to wait for wakes
	probing   int64     // number of the probe under way; 0: none
	letGo     bool      // the lease is not renewed on purpose
}

// pulseState is what survives a restart of pulse.
type pulseState struct {
	renewed time.Time // when the last renewal that succeeded was sent
	state   lifecycle.LeaseState
}

// pulseDue is the timer of renewals; leaseCheck judges the lease.
type (
	pulseDue   struct{ tick int64 }
	leaseCheck struct{ tick int64 }
)

func spawnPulse(rt *runtime, ports *Ports, pod int64, h *pulseState) func() receiver {
	return func() receiver {
		return &pulse{rt: rt, self: rt.addresses.pulse, pod: pod, store: ports.Store, carryover: h, suspects: map[taskKey]bool{}, missed: map[taskKey]time.Time{}, progress: map[taskKey][]byte{}}
	}
}

// Receive implements protoactor's Actor.
func (a *pulse) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.waited, a.beat = a.rt.now(), a.rt.now()
		a.arm(a.rt.config.Pulse / firstPulse)
		a.armCheck()
	case *pulseDue:
		a.onDue(msg)
	case *messages.HeldListed:
		a.onHeldListed(msg)
	case *answered[persistence.Renewed]:
		a.onRenewed(msg)
	case *answered[probed]:
		a.onProbed(msg)
	case *leaseCheck:
		if msg.tick == a.check {
			a.judge()
			a.armCheck()
		}
	case *messages.CheckCancels:
		a.onCheckCancels()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("pulse", msg)
	}
}

func (a *pulse) arm(d time.Duration) {
	a.tick = a.rt.numbers.next()
	a.rt.after(d, a.self, &pulseDue{tick: a.tick})
}

// armCheck checks the lease at the instant at which its state changes without a renewal:
// the pod must have stopped acting before other pods may begin.
func (a *pulse) armCheck() {
	c := a.rt.config
	age := a.rt.now().Sub(a.carryover.renewed)
	next := c.Pulse
	for _, turn := range []time.Duration{2 * c.Pulse, c.LeaseTTL - c.LeaseMargin} {
		if turn > age {
			next = min(next, turn-age)
		}
	}
	a.check = a.rt.numbers.next()
	a.rt.after(next, a.self, &leaseCheck{tick: a.check})
}

func (a *pulse) onDue(m *pulseDue) {
	if m.tick != a.tick {
		return
	}
	a.arm(a.rt.config.Pulse)
	a.soon = false
	if a.number == 0 && !a.rt.buggify("skip a pulse") {
		a.rt.send(a.rt.addresses.runs, &messages.ListHeld{})
	}
}

// onCheckCancels renews early, once: the answer lists the canceling runs.
func (a *pulse) onCheckCancels() {
	if !a.soon && a.number == 0 {
		a.soon = true
		a.rt.send(a.rt.addresses.runs, &messages.ListHeld{})
	}
}

// onHeldListed sends the renewal.
func (a *pulse) onHeldListed(m *messages.HeldListed) {
	progress := map[taskKey][]byte{}
	for _, h := range m.GetTasks() {
		key := keyOf(h.GetTask())
		if latest := h.GetProgress(); len(latest) > 0 {
			progress[key] = latest
		} else if older := a.progress[key]; older != nil {
			progress[key] = older
		}
	}
	a.progress = progress
	if a.number != 0 || a.cutOff() {
		return
	}
	renewal := persistence.Renewal{Pod: a.pod, TTL: a.rt.config.LeaseTTL, Held: a.held(m.GetTasks()), Load: a.load()}
	a.sent = a.rt.now()
	a.number = askApart(a.rt, a.self, "renew_pod", a.renewTimeout(), func(ctx context.Context) (persistence.Renewed, error) {
		return a.store.RenewPod(ctx, renewal)
	})
}

// renewTimeout leaves time for a second renewal before the lease ends. It is no shorter: a
// renewal that is given up costs its connection, and on a slow network a new connection
// takes longer.
func (a *pulse) renewTimeout() time.Duration {
	return max(a.rt.config.Pulse, a.rt.config.LeaseTTL*2/5)
}

// firstPulse is the part of a period before the first renewal, which counts the pods.
const firstPulse = 50

// load is how much use wakes are to this pod. A pod without step functions has no tasks to
// claim; an embedder that triggers in transactions of its own needs the stream for them.
func (a *pulse) load() persistence.Load {
	now, claims, c := a.rt.now(), a.rt.recorder.value(MetricClaims), a.rt.config
	free := c.slots() - int(a.rt.recorder.value(MetricRunning))
	if len(a.rt.functions) > 0 && !cluster.Busy(free, int(claims-a.claims), now.Sub(a.beat)) {
		a.waited = now
	}
	a.claims, a.beat = claims, now
	switch {
	case now.Sub(a.waited) >= c.StreamSpare && !a.rt.submits():
		return persistence.LoadBusy
	case free <= 0 || len(a.rt.functions) == 0:
		return persistence.LoadFull
	}
	return persistence.LoadIdle
}

// held adds as much progress as fits: the lease matters more, and a large message might be
// late. The rest waits for the next renewal.
func (a *pulse) held(tasks []*messages.HeldTask) []persistence.Held {
	var list []persistence.Held
	bytes := 0
	a.storing = map[taskKey][]byte{}
	for _, h := range tasks {
		key := keyOf(h.GetTask())
		held := persistence.Held{Task: key.task, Epoch: key.epoch}
		if progress := a.progress[key]; progress != nil && (bytes == 0 || bytes+len(progress) <= progressBytesMax) {
			bytes += len(progress)
			held.Progress, a.storing[key] = progress, progress
			delete(a.progress, key)
		}
		list = append(list, held)
	}
	return list
}

func (a *pulse) onRenewed(m *answered[persistence.Renewed]) {
	if m.number != a.number {
		return
	}
	a.number = 0
	renewed := m.err == nil || !m.value.Expires.IsZero()
	a.rt.status.with(func(f *podFacts) {
		f.unrenewed = ""
		if !renewed {
			f.unrenewed = persistence.Shown(m.err)
		}
	})
	switch {
	case errors.Is(m.err, persistence.ErrPodDead):
		a.rt.recorder.add(MetricRenewals, 1, "dead")
		a.turn(lifecycle.LeaseDead)
		return
	case !renewed:
		a.failures++
		a.keepProgress()
		a.rt.recorder.add(MetricRenewals, 1, "failed")
		a.rt.storeFailed("renew_pod", m.err)
		a.arm(min(a.rt.retryDelay(a.failures), a.rt.config.Pulse))
		return
	}
	a.failures = 0
	a.rt.observeClock(m.value.Now, a.sent)
	a.carryover.renewed = a.sent
	a.judge()
	a.rt.recorder.set(MetricPods, float64(m.value.Pods))
	count := &messages.PodsCounted{
		Pods: int32(m.value.Pods), Waiting: int32(m.value.Waiting), Idle: int32(m.value.Idle), Place: int32(m.value.Place),
	}
	a.rt.send(a.rt.addresses.claimer, count)
	a.rt.send(a.rt.addresses.feed, count)
	a.rt.vitals.with(func(v *vitals.Vitals) {
		v.FoundBack(a.rt.now())
		v.Rejected.Note("compare_held", a.rt.now(), 0, m.err)
	})
	if m.err != nil { // renewed, but not compared: the next renewal may compare
		a.keepProgress()
		a.rt.recorder.add(MetricRenewals, 1, "alone")
		a.rt.storeFailed("compare_held", m.err)
		return
	}
	a.rt.recorder.add(MetricRenewals, 1, "renewed")
	a.compare(&m.value)
}

// keepProgress takes back progress that was not stored.
func (a *pulse) keepProgress() {
	for key, progress := range a.storing {
		if a.progress[key] == nil { // there is no later one
			a.progress[key] = progress
		}
	}
}

// compare applies the differences between the tables and this pod.
func (a *pulse) compare(renewed *persistence.Renewed) {
	if lost := a.lost(renewed.Lost); len(lost.GetTasks()) > 0 {
		a.rt.send(a.rt.addresses.runs, lost)
	}
	if len(renewed.Canceling) > 0 {
		canceling := &messages.RunsCanceling{}
		for i := range renewed.Canceling {
			canceling.Runs = append(canceling.Runs, renewed.Canceling[i][:])
		}
		a.rt.send(a.rt.addresses.runs, canceling)
	}
	suspects, unheld := map[taskKey]bool{}, &messages.TasksUnheld{}
	for _, h := range renewed.Unheld {
		key := taskKey{task: h.Task, epoch: h.Epoch}
		if !a.suspects[key] { // it may be on its way to a run actor
			suspects[key] = true
			continue
		}
		unheld.Tasks = append(unheld.Tasks, key.message())
	}
	a.suspects = suspects
	if len(unheld.GetTasks()) > 0 {
		a.rt.send(a.rt.addresses.runs, unheld)
	}
}

// lost returns the tasks that have not been this pod's by the table for a while. A task
// that has just ended is held until the answer of its record arrives.
func (a *pulse) lost(list []persistence.Held) *messages.TasksLost {
	missed, lost, now := make(map[taskKey]time.Time, len(list)), &messages.TasksLost{}, a.rt.now()
	for _, h := range list {
		key := taskKey{task: h.Task, epoch: h.Epoch}
		since, before := a.missed[key]
		if !before {
			since = now
		}
		missed[key] = since
		if before && now.Sub(since) >= a.rt.config.Pulse/2 {
			lost.Tasks = append(lost.Tasks, key.message())
		}
	}
	a.missed = missed
	return lost
}

// judge decides how the lease stands now.
func (a *pulse) judge() {
	times := lifecycle.LeaseTimes{TTL: a.rt.config.LeaseTTL, Pulse: a.rt.config.Pulse, Margin: a.rt.config.LeaseMargin}
	a.turn(lifecycle.DecideLease(times, a.carryover.state, a.carryover.renewed, a.rt.now()))
}

// turn broadcasts the state of the lease, and repeats it at every check, so that an actor
// that restarted meanwhile learns it.
func (a *pulse) turn(next lifecycle.LeaseState) {
	before := a.carryover.state
	if next != before {
		a.carryover.state = next
		a.rt.status.with(func(f *podFacts) { f.turnLease(next) })
		if (next != lifecycle.LeaseLive || before != 0) && !a.rt.status.get().leaving {
			a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "lease changed",
				slog.Int64("pod_id", a.pod), slog.String("from", before.String()), slog.String("to", next.String()))
		}
	}
	switch next {
	case lifecycle.LeaseDead:
		a.tell(&messages.LeaseFenced{})
		a.rt.send(a.rt.addresses.pod, &messages.PodDied{Pod: a.pod})
	case lifecycle.LeaseLost:
		a.tell(&messages.LeaseFenced{})
	case lifecycle.LeaseLive, lifecycle.LeaseLate:
		a.tell(&messages.LeaseRestored{})
	}
}

func (a *pulse) tell(message any) {
	for _, pid := range []*PID{a.rt.addresses.claimer, a.rt.addresses.runs, a.rt.addresses.journal, a.rt.addresses.leader} {
		a.rt.send(pid, message)
	}
}
