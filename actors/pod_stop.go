package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// stopStage is how far a stop has come. Stages follow each other in this
// order; each ends when its work is done, or at its limit.
type stopStage uint8

const (
	stageIntake stopStage = iota + 1 // new triggers are refused, accepted ones stored
	stageClaims                      // nothing is claimed any more, inline neither
	stageGrace                       // tasks may finish; the pulse keeps the lease
	stageEnd                         // their contexts are ended
	stageFlush                       // their reports are recorded
	stageResign                      // another pod may lead
	stageFeed                        // subscriptions end, the slot is dropped
	stageLeave                       // the rest is handed back uncharged, the pod's row deleted
	stageEnded
)

// String names a stage by what it waits for.
func (s stopStage) String() string {
	return [...]string{
		"not begun", "triggers are stored", "claims end", "tasks finish", "step functions return", "what was reported is recorded",
		"another pod may lead", "subscriptions end", "what is left is handed back", "ended",
	}[s]
}

// limit is how long a stage may take at a time.
func (s stopStage) limit(c Config) time.Duration {
	if s == stageGrace {
		return c.StopGrace
	}
	if s == stageEnd {
		return c.EndGrace
	}
	return stopStageLimit
}

const (
	// killPart is how long a pod that is killed waits for its tasks to be handed back.
	// While the database answers anything it waits again, up to killParts times.
	killPart  = 500 * time.Millisecond
	killParts = int(stopStageLimit / killPart)
	// stopStageParts is how many times its limit a stage may take that writes, while the
	// lease is live: the database answers then, and is slow.
	stopStageParts = 3
)

// parts is how many times its limit a stage may take.
func (s stopStage) parts() int {
	if s == stageFlush || s == stageLeave {
		return stopStageParts
	}
	return 1
}

// StopMax returns how long a stop takes at most, from the first to the last of its
// stages. A supervisor of the process should wait for longer than that.
func (c Config) StopMax() time.Duration {
	c = c.withDefaults()
	sum := time.Duration(0)
	for s := stageIntake; s < stageEnded; s++ {
		sum += time.Duration(s.parts()) * s.limit(c)
	}
	return sum
}

// mayGoOn reports whether a stage at its limit gets more time. A pod that is killed waits
// only while the database answers.
func (a *pod) mayGoOn() bool {
	if a.killed {
		return a.stage == stageLeave && a.stageParts < killParts && !a.rt.lastAnswer().Before(a.stageAt)
	}
	return a.stageParts < a.stage.parts() && a.rt.status.get().lease == lifecycle.LeaseLive
}

// kill ends the pod at once.
func (a *pod) kill() {
	late := !a.killed && a.stage == stageLeave
	a.killed = true
	if late {
		a.begin()
	}
	a.advance(stageLeave)
}

// begin gives the stage under way its time.
func (a *pod) begin() {
	a.stageParts = 0
	a.goOn()
}

// goOn gives the stage under way its limit once more. A pod that is killed probes
// meanwhile whether the database answers.
func (a *pod) goOn() {
	limit := a.stage.limit(a.rt.config)
	if a.killed && a.stage == stageLeave {
		limit, a.stageAt = killPart, a.rt.now()
		askProbe(&a.base, &call{}, a.ports.Store, "probe", leadProbeTimeout, func(none, error) {}) // that it is answered counts
	}
	a.stageParts++
	a.stageTimer.set(&a.base, limit, a.onStageDue)
}

// advance enters a stage, unless the stop has come further.
func (a *pod) advance(stage stopStage) {
	switch {
	case a.dead: // nothing is left to hand over
		stage = max(stage, stageLeave)
	case a.disowned && stage > stageIntake:
		stage = max(stage, stageResign)
	}
	if stage <= a.stage || stage > stageEnded {
		return
	}
	a.stage = stage
	a.off = stage >= stageFeed
	a.begin()
	switch stage {
	case stageIntake:
		a.rt.status.with(func(f *podFacts) { f.stopping = true })
		a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "stopping", slog.Int64("pod_id", a.number))
		a.rt.send(a.rt.addresses.intake, &messages.DrainIntake{})
	case stageClaims:
		a.stopClaims()
	case stageGrace:
		a.rt.send(a.rt.addresses.runs, &messages.DrainRuns{})
	case stageEnd:
		a.rt.send(a.rt.addresses.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_STOPPING})
	case stageFlush:
		a.rt.send(a.rt.addresses.journal, &messages.FlushJournal{})
	case stageResign:
		a.rt.send(a.rt.addresses.leader, &messages.Resign{})
	case stageFeed:
		a.rt.send(a.rt.addresses.feed, &messages.CloseFeed{})
	case stageLeave:
		a.stopClaims() // a killed pod would claim its tasks again
		a.rt.send(a.rt.addresses.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_STOPPING})
		a.leave()
	case stageEnded:
		if a.lost { // an actor that is gone does not stop, and the pod would wait for it
			a.end()
		}
		a.ctx.Stop(a.rt.addresses.pod)
	}
}

func (a *pod) stopClaims() {
	a.rt.send(a.rt.addresses.journal, &messages.StopGranting{})
	a.rt.send(a.rt.addresses.claimer, &messages.StopClaiming{})
}

// finished begins the next stage when the stage under way has ended.
func (a *pod) finished(stage stopStage) {
	if a.stage == stage {
		a.advance(stage + 1)
	}
}

// onRunsDrained skips stages that have nothing to wait for.
func (a *pod) onRunsDrained() {
	if a.stage == stageGrace || a.stage == stageEnd {
		a.advance(stageFlush)
	}
}

func (a *pod) onStageDue() {
	if a.mayGoOn() {
		a.goOn()
		return
	}
	if a.stage != stageGrace {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "a stage of the stop took too long, the next one begins",
			slog.Int64("pod_id", a.number), slog.String("stage", a.stage.String()))
	}
	a.advance(a.stage + 1)
}

// disown continues a stop after the database has declared the pod dead: its tasks can be
// neither recorded nor handed back.
func (a *pod) disown() {
	a.disowned = true
	a.rt.send(a.rt.addresses.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_LEASE_LOST})
	if a.stage > stageIntake {
		a.advance(stageResign)
	}
}

// leave hands the tasks back and deletes the pod's row. While the pod joins again it has
// no row yet: the answer to that names it.
func (a *pod) leave() {
	a.rt.status.with(func(f *podFacts) { f.stopping = true })
	if a.joining.open() {
		return
	}
	a.rt.status.with(func(f *podFacts) { f.leaving = true })
	lease, number := persistence.Lease(a.ports.Store), a.number
	ask(&a.base, &a.leaving, "leave_pod", stopStageParts*stopStageLimit, func(ctx context.Context) (persistence.Wake, error) {
		return lease.LeavePod(ctx, number)
	}, a.onLeft)
}

// onLeft ends the pod. Other pods are told of the tasks that were handed back, after an
// error, too.
func (a *pod) onLeft(wake persistence.Wake, err error) {
	if err != nil {
		a.rt.storeFailed("leave_pod", err)
	}
	a.rt.countEnds(wake)
	end := func(none, error) { a.advance(stageEnded) }
	notice := noticeOf(a.number, wake)
	if notice == nil {
		end(none{}, nil)
		return
	}
	notifier := a.ports.Notifier
	askApart(&a.base, &a.leaving, "notify", stopStageLimit, func(ctx context.Context) (none, error) {
		return none{}, notifier.Notify(ctx, *notice)
	}, end)
}

// noticeOf is the notice of a wake for other pods; nil if it has no news.
func noticeOf(pod int64, wake persistence.Wake) *cluster.Notice {
	var wakes []cluster.Wake
	for _, r := range wake.Ready {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeReady, Queue: r.Queue, Count: r.Count})
	}
	for _, run := range wake.Ended {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: run})
	}
	if len(wakes) == 0 {
		return nil
	}
	return &cluster.Notice{Wakes: wakes, From: pod}
}
