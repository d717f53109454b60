package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/messages"
)

// stopStage is how far a stop has come. Stages follow each other in this
// order; each ends when what it asked for has happened, or at its limit.
type stopStage uint8

const (
	stageIntake stopStage = iota + 1 // new triggers are refused, accepted ones stored
	stageClaims                      // nothing is claimed any more, inline neither
	stageGrace                       // tasks may finish; the pulse goes on
	stageEnd                         // their contexts are ended
	stageFlush                       // what they reported is recorded
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
	switch s {
	case stageGrace:
		return c.StopGrace
	case stageEnd:
		return c.EndGrace
	case stageIntake, stageClaims, stageFlush, stageResign, stageFeed, stageLeave, stageEnded:
	}
	return stopStageLimit
}

const (
	// stopStageLimit bounds the stages that wait for the database: without one the
	// pod ends all the same, and its lease runs out.
	stopStageLimit = 5 * time.Second
	// killPart is how long a pod that is to end at once waits for what it hands back,
	// and waits on as long as the database answers anything, for killParts of it.
	killPart  = 500 * time.Millisecond
	killParts = int(stopStageLimit / killPart)
	// stopStageParts is how many times that a stage has which writes down what the pod
	// held, while the lease is live: then the database answers, and is slow.
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
// stages. Whoever ends processes from outside waits for longer than that.
func (c Config) StopMax() time.Duration {
	c = c.withDefaults()
	sum := time.Duration(0)
	for s := stageIntake; s < stageEnded; s++ {
		sum += time.Duration(s.parts()) * s.limit(c)
	}
	return sum
}

// mayGoOn reports whether a stage that has taken its time gets some more. A pod that is
// to end at once waits only while the database answers.
func (a *pod) mayGoOn() bool {
	if a.killed {
		return a.stage == stageLeave && a.stageParts < killParts && !a.rt.reach.answered().Before(a.stageAt)
	}
	return a.stageParts < a.stage.parts() && a.rt.boundary.leaseLives()
}

// kill ends the pod at once.
func (a *pod) kill(ctx actorContext) {
	late := !a.killed && a.stage == stageLeave
	a.killed = true
	if late {
		a.begin()
	}
	a.advance(ctx, stageLeave)
}

// begin gives the stage under way its time.
func (a *pod) begin() {
	a.stageNo, a.stageParts = a.rt.numbers.next(), 0
	a.goOn()
}

// goOn gives the stage under way its limit once more. Where the pod is to end at once, it
// finds out meanwhile whether the database answers.
func (a *pod) goOn() {
	limit := a.stage.limit(a.rt.config)
	if a.killed && a.stage == stageLeave {
		limit, a.stageAt = killPart, a.rt.now()
		askProbe(a.rt, a.rt.team.pod)
	}
	a.stageParts++
	a.rt.after(limit, a.rt.team.pod, &stageDue{number: a.stageNo})
}

// advance enters a stage, unless the stop has come further.
func (a *pod) advance(ctx actorContext, stage stopStage) {
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
		a.rt.boundary.stop()
		a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "stopping", slog.Int64("pod_id", a.number))
		a.rt.send(a.rt.team.intake, &messages.DrainIntake{})
	case stageClaims:
		a.stopClaims()
	case stageGrace:
		a.rt.send(a.rt.team.runs, &messages.DrainRuns{})
	case stageEnd:
		a.rt.send(a.rt.team.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_STOPPING})
	case stageFlush:
		a.rt.send(a.rt.team.journal, &messages.FlushJournal{})
	case stageResign:
		a.rt.send(a.rt.team.leader, &messages.Resign{})
	case stageFeed:
		a.rt.send(a.rt.team.feed, &messages.CloseFeed{})
	case stageLeave:
		a.stopClaims() // of a pod that ends at once: it would claim again what it hands back
		a.rt.send(a.rt.team.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_STOPPING})
		a.leave()
	case stageEnded:
		if a.lost { // what is gone does not stop, and the pod would wait for it
			a.end()
		}
		ctx.Stop(a.rt.team.pod)
	}
}

func (a *pod) stopClaims() {
	a.rt.send(a.rt.team.journal, &messages.StopGranting{})
	a.rt.send(a.rt.team.claimer, &messages.StopClaiming{})
}

// finished goes on when the stage that is under way has ended.
func (a *pod) finished(ctx actorContext, stage stopStage) {
	if a.stage == stage {
		a.advance(ctx, stage+1)
	}
}

// onRunsDrained skips what there is no need for.
func (a *pod) onRunsDrained(ctx actorContext) {
	if a.stage == stageGrace || a.stage == stageEnd {
		a.advance(ctx, stageFlush)
	}
}

func (a *pod) onStageDue(ctx actorContext, m *stageDue) {
	if m.number != a.stageNo {
		return
	}
	if a.mayGoOn() {
		a.goOn()
		return
	}
	if a.stage != stageGrace {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "a stage of the stop took too long, going on",
			slog.Int64("pod_id", a.number), slog.String("stage", a.stage.String()))
	}
	a.advance(ctx, a.stage+1)
}

// disown goes on with a stop after the database has declared the pod dead:
// nothing that it held can be recorded or handed back.
func (a *pod) disown(ctx actorContext) {
	a.disowned = true
	a.rt.send(a.rt.team.runs, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_LEASE_LOST})
	if a.stage > stageIntake {
		a.advance(ctx, stageResign)
	}
}

// leave hands back what is held and deletes the pod's row. While the pod joins
// again it has no row yet: the answer to that tells which.
func (a *pod) leave() {
	a.rt.boundary.stop()
	if a.joining != 0 {
		return
	}
	a.rt.boundary.leave()
	rt, number := a.rt, a.number
	a.leaving = ask(rt, rt.team.pod, "leave_pod", stopStageParts*stopStageLimit, func(ctx context.Context) (left, error) {
		wake, err := rt.ports.Store.LeavePod(ctx, number)
		return left{wake: wake}, err
	})
}

func (a *pod) onLeft(ctx actorContext, m *answered[left]) {
	if m.number != a.leaving {
		return
	}
	if m.err != nil {
		a.rt.storeFailed("leave_pod", m.err)
	}
	if notice := noticeOf(a.number, m.value.wake); notice != nil { // with an error, too: of what was handed back before it
		rt := a.rt // others take over at once
		rt.executor.Call(rt.team.pod, "notify", stopStageLimit, func(ctx context.Context) any {
			_ = rt.ports.Notifier.Notify(ctx, *notice)
			return &handedOver{}
		})
		return
	}
	a.advance(ctx, stageEnded)
}

// handedOver says that others were told of what this pod handed back.
type handedOver struct{}

// leave marks the last stage of the pod's stop.
func (b *boundary) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving = true
}

// leaves reports whether the pod is about to be dead to the database by its own wish.
func (b *boundary) leaves() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaving
}
