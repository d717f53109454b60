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
	base
	pod       int64
	store     persistence.Lease
	carryover *pulseState
	sent      time.Time             // of the renewal under way
	call      call                  // the renewal
	progress  map[taskKey][]byte    // of held tasks, not stored yet
	storing   map[taskKey][]byte    // the same, in the renewal under way
	suspects  map[taskKey]bool      // unheld in the last renewal
	missed    map[taskKey]time.Time // held, but not by the table: since when
	tick      timer                 // of renewals
	check     timer                 // of the lease
	soon      bool                  // a renewal was asked for out of turn
	claims    float64               // of this pod at the last renewal
	beat      time.Time             // when that was
	waited    time.Time             // when the pod was last seen to wait for wakes
	probe     call
	letGo     bool // the lease is not renewed on purpose
}

// pulseState is what survives a restart of pulse.
type pulseState struct {
	renewed time.Time // when the last renewal that succeeded was sent
	state   lifecycle.LeaseState
}

func spawnPulse(rt *runtime, ports *Ports, pod int64, h *pulseState) func() receiver {
	return func() receiver {
		return &pulse{base: base{rt, rt.addresses.pulse}, pod: pod, store: ports.Store, carryover: h, suspects: map[taskKey]bool{}, missed: map[taskKey]time.Time{}, progress: map[taskKey][]byte{}}
	}
}

// Receive implements protoactor's Actor.
func (a *pulse) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.waited, a.beat = a.rt.now(), a.rt.now()
		a.arm(a.rt.config.Pulse / firstPulse)
		a.armCheck()
	case *happened:
		a.handle(msg)
	case *messages.HeldListed:
		a.onHeldListed(msg)
	case *messages.CheckCancels:
		a.onCheckCancels()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("pulse", msg)
	}
}

func (a *pulse) arm(d time.Duration) { a.tick.set(&a.base, d, a.onDue) }

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
	a.check.set(&a.base, next, func() {
		a.judge()
		a.armCheck()
	})
}

func (a *pulse) onDue() {
	if a.soon && a.call.open() {
		a.arm(earlyEvery)
		return
	}
	a.arm(a.rt.config.Pulse)
	a.soon = false
	if !a.call.open() && !a.rt.buggify("skip a pulse") {
		a.rt.send(a.rt.addresses.runs, &messages.ListHeld{})
	}
}

// earlyEvery is the least time between two renewals of which one was asked for out of turn.
const earlyEvery = 200 * time.Millisecond

// onCheckCancels renews early: the answer lists the canceling runs. That of a renewal under way may
// be from before the cancel.
func (a *pulse) onCheckCancels() {
	if a.soon {
		return
	}
	a.soon = true
	if wait := a.sent.Add(earlyEvery).Sub(a.rt.now()); wait > 0 || a.call.open() {
		a.arm(max(wait, earlyEvery/2))
		return
	}
	a.rt.send(a.rt.addresses.runs, &messages.ListHeld{})
}

// onHeldListed sends the renewal.
func (a *pulse) onHeldListed(m *messages.HeldListed) {
	a.soon = false
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
	if a.call.open() || a.cutOff() {
		return
	}
	renewal := persistence.Renewal{Pod: a.pod, TTL: a.rt.config.LeaseTTL, Held: a.held(m.GetTasks()), Load: a.load()}
	a.sent = a.rt.now()
	askApart(&a.base, &a.call, "renew_pod", a.renewTimeout(), func(ctx context.Context) (persistence.Renewed, error) {
		return a.store.RenewPod(ctx, renewal)
	}, a.onRenewed)
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

func (a *pulse) onRenewed(value persistence.Renewed, err error) {
	renewed := err == nil || !value.Expires.IsZero()
	a.rt.status.with(func(f *podFacts) {
		f.unrenewed = ""
		if !renewed {
			f.unrenewed = persistence.Shown(err)
		}
	})
	switch {
	case errors.Is(err, persistence.ErrPodDead):
		a.rt.recorder.add(MetricRenewals, 1, "dead")
		a.turn(lifecycle.LeaseDead)
		return
	case !renewed:
		a.keepProgress()
		a.rt.recorder.add(MetricRenewals, 1, "failed")
		wait, _ := a.call.failed(a.rt, "renew_pod", err)
		a.arm(min(wait, a.rt.config.Pulse))
		return
	}
	a.call.failures = 0
	a.rt.observeClock(value.Now, a.sent)
	a.carryover.renewed = a.sent
	a.judge()
	a.rt.recorder.set(MetricPods, float64(value.Pods))
	a.rt.status.with(func(f *podFacts) { f.executing = value.Executing })
	count := &messages.PodsCounted{
		Pods: int32(value.Pods), Waiting: int32(value.Waiting), Idle: int32(value.Idle), Place: int32(value.Place),
	}
	a.rt.send(a.rt.addresses.claimer, count)
	a.rt.send(a.rt.addresses.feed, count)
	a.rt.vitals.with(func(v *vitals.Vitals) {
		v.FoundBack(a.rt.now())
		v.Rejected.Note("compare_held", a.rt.now(), 0, err)
	})
	if err != nil { // renewed, but not compared: the next renewal may compare
		a.keepProgress()
		a.rt.recorder.add(MetricRenewals, 1, "alone")
		a.rt.storeFailed("compare_held", err)
		return
	}
	a.rt.recorder.add(MetricRenewals, 1, "renewed")
	a.compare(&value)
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
	if len(renewed.Canceling)+len(renewed.Stopped) > 0 {
		canceling := &messages.RunsCanceling{Compared: true}
		for _, h := range renewed.Stopped {
			canceling.Tasks = append(canceling.Tasks, taskKey{task: h.Task, epoch: h.Epoch}.message())
		}
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
	if max(silence, oldest) >= leadDoubt && !a.probe.open() {
		askProbe(&a.base, &a.probe, a.store, pulseProbe, a.rt.config.silenceMax(), a.onProbed)
	}
	if silence < a.rt.config.silenceMax() || a.rt.config.ClientOnly || a.rt.status.get().executing <= 1 {
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

func (a *pulse) onProbed(_ none, err error) {
	switch {
	case !persistence.Answered(err):
		a.rt.storeFailed("probe", err)
	case a.letGo: // do not wait for the next pulse
		a.onCheckCancels()
	}
}
