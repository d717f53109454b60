package actors

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// pod is the root of the tree. It starts the others in order, lets the pod
// join again when the database has declared it dead, and stops it.
//
// Owns: the pod's number; how far a stop has come.
// Parent: none; the engine watches it.
// Accepts: TriggerRun, CancelRun, AwaitRun, PodDied, IntakeDrained,
// ClaimingStopped, RunsDrained, JournalFlushed, Resigned, FeedClosed.
// Sends: TriggerRun, CancelRun, AwaitRun, DrainIntake, StopClaiming,
// StopGranting, DrainRuns, EndAttempts, FlushJournal, Resign, CloseFeed.
// On failure: the pod ends, and Err says why.
type pod struct {
	supervision
	rt       *runtime
	heirs    *heirs
	number   int64
	children []*PID // in the order of their start
	gone     int    // children that have ended while the pod joins again
	dead     bool   // joining again
	joining  int64  // call under way
	failures int
	stage    stopStage
	stageNo  int64 // number of the stage's timer
	leaving  int64 // call under way
}

// Messages of the pod to itself, and from the edge.
type (
	stopPod   struct{}
	killPod   struct{}
	joinAgain struct{}
	joined    struct{ number int64 }
	left      struct{ wake persistence.Wake }
	stageDue  struct{ number int64 }
)

func newPod(rt *runtime, number int64) func() receiver {
	return func() receiver {
		a := &pod{rt: rt, number: number, heirs: newHeirs(rt)}
		a.supervision = supervision{rt: rt, self: rt.team.pod, escalate: a.onEscalated}
		return a
	}
}

// newHeirs returns what the first incarnations begin with.
func newHeirs(rt *runtime) *heirs {
	return &heirs{
		intake: &intakeHeir{}, claimer: &claimerHeir{}, journal: &journalHeir{granting: true}, leader: &leaderHeir{},
		runs:  &runsHeir{ledger: newLedger(rt.config.pools(), rt.config.StuckMax)},
		pulse: &pulseHeir{renewed: rt.now(), state: lifecycle.LeaseLive},
	}
}

// Receive implements protoactor's Actor.
func (a *pod) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.spawnAll(ctx)
	case *messages.TriggerRun:
		ctx.Forward(a.rt.team.intake)
	case *messages.CancelRun:
		ctx.Forward(a.rt.team.journal)
	case *messages.AwaitRun:
		ctx.Forward(a.rt.team.feed)
	case *messages.PodDied:
		a.onPodDied(ctx, msg)
	case *terminated:
		a.onTerminated(ctx)
	case *answered[joined]:
		a.onJoined(ctx, msg)
	case *joinAgain:
		a.join()
	case *stopPod:
		a.advance(ctx, stageIntake)
	case *killPod:
		a.advance(ctx, stageLeave)
	case *stageDue:
		a.onStageDue(ctx, msg)
	case *messages.IntakeDrained:
		a.finished(ctx, stageIntake)
	case *messages.ClaimingStopped:
		a.finished(ctx, stageClaims)
	case *messages.RunsDrained:
		a.onRunsDrained(ctx)
	case *messages.JournalFlushed:
		a.finished(ctx, stageFlush)
	case *messages.Resigned:
		a.finished(ctx, stageResign)
	case *messages.FeedClosed:
		a.finished(ctx, stageFeed)
	case *handedOver:
		a.advance(ctx, stageEnded)
	case *answered[left]:
		a.onLeft(ctx, msg)
	case *restartDue:
		a.onRestartDue(msg)
	case *listChildren:
		msg.answer(ctx)
	case *restarting, *stopping:
		a.off = true
	case *stopped:
		a.rt.edge.end(a.ending())
	default:
		a.rt.unknown(podName, msg)
	}
}

// ending is why the pod has ended, if nobody has said so before.
func (a *pod) ending() error {
	if a.stage == stageEnded {
		return nil
	}
	return ErrPodStopped
}

func (a *pod) spawnAll(ctx actorContext) {
	a.children = a.children[:0]
	for _, m := range childrenOf(podName) {
		pid, err := ctx.SpawnNamed(newProps(m.spawn(a.rt, a.number, a.heirs), a.rt.mailbox), m.name)
		if err != nil {
			a.onEscalated(m.name, err)
			return
		}
		a.children = append(a.children, pid)
	}
	a.rt.edge.begin()
}

// onEscalated ends the pod: supervision could not mend it.
func (a *pod) onEscalated(child string, reason any) {
	a.rt.edge.end(fmt.Errorf("%w: %s: %v", ErrSupervision, child, reason))
	a.rt.send(a.rt.team.pod, &killPod{})
}

// onPodDied begins anew under another number: nothing that this pod held is
// its own any more. Triggers that wait to be stored are kept.
func (a *pod) onPodDied(ctx actorContext, m *messages.PodDied) {
	if m.GetPod() != a.number || a.dead || a.stage != 0 {
		return
	}
	a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "this pod was declared dead, joining again",
		slog.Int64("pod_id", a.number))
	a.dead, a.gone = true, 0
	for i := len(a.children) - 1; i >= 0; i-- {
		ctx.Stop(a.children[i])
	}
}

func (a *pod) onTerminated(ctx actorContext) {
	if !a.dead || a.stage != 0 {
		return
	}
	if a.gone++; a.gone == len(a.children) {
		a.join()
	}
}

func (a *pod) join() {
	if a.joining != 0 || a.stage != 0 {
		return
	}
	rt := a.rt
	a.joining = ask(rt, rt.team.pod, "join_pod", storeTimeout, func(ctx context.Context) (joined, error) {
		number, _, err := rt.ports.Store.JoinPod(ctx, rt.podInfo())
		return joined{number: number}, err
	})
}

func (a *pod) onJoined(ctx actorContext, m *answered[joined]) {
	if m.number != a.joining {
		return
	}
	a.joining = 0
	if m.err != nil {
		a.failures++
		a.rt.storeFailed("join_pod", m.err)
		a.rt.after(a.rt.retryDelay(a.failures), a.rt.team.pod, &joinAgain{})
		return
	}
	a.failures, a.dead, a.number = 0, false, m.value.number
	a.rt.edge.joined(a.number)
	kept := a.heirs.intake
	a.heirs = newHeirs(a.rt)
	a.heirs.intake = kept
	if a.stage == 0 {
		a.spawnAll(ctx)
	}
}

// podInfo describes this pod to the database.
func (rt *runtime) podInfo() persistence.PodInfo {
	return persistence.PodInfo{
		Name: rt.config.PodName, Handlers: rt.handlerNumbers(), Queues: rt.config.queues(),
		Slots: rt.config.slots(), TTL: rt.config.LeaseTTL, Version: rt.config.Version,
	}
}

// listChildren asks a supervisor for the names of its children, for tests.
type listChildren struct{ to chan<- []string }

func (m *listChildren) answer(ctx actorContext) {
	var names []string
	for _, pid := range ctx.Children() {
		names = append(names, lastName(pid))
	}
	m.to <- names
}
