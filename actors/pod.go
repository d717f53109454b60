package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// pod is the root of the tree. It starts the others in order, lets the pod
// join again when the database has declared it dead, and stops it.
//
// Owns: the pod's number; how far a stop has come.
// Parent: none; the engine watches it.
// Accepts: TriggerRun, SendSignal, CancelRun, AwaitRun, PodDied, IntakeDrained,
// ClaimingStopped, RunsDrained, JournalFlushed, Resigned, FeedClosed.
// Sends: TriggerRun, SendSignal, CancelRun, CancelRefused, AwaitRun, AwaitRefused,
// DrainIntake, StopClaiming, StopGranting, DrainRuns, EndAttempts, FlushJournal,
// Resign, CloseFeed.
// On failure: the pod ends, and Err says why. So it does if it may not join
// again.
type pod struct {
	supervision
	ctx        actorContext
	ports      *Ports
	carryovers *carryovers
	number     int64
	children   []*PID // actors that end when the pod joins again, in the order of their start
	gone       int    // of them, while it does
	dead       bool   // joining again
	disowned   bool   // declared dead during a stop
	failed     error  // supervision could not mend it
	joining    call
	stage      stopStage
	stageTimer timer
	leaving    call
	killed     bool // it is to end at once
	lost       bool // one of its actors is gone, so that it cannot stop in order

	stageParts int       // times that the stage has been given its limit
	stageAt    time.Time // when it was last given that of a pod that is to end at once
}

// Messages from Pod, and of the pod to itself.
type (
	stopPod struct{}
	killPod struct{}
)

func newPod(rt *runtime, ports *Ports, number int64) func() receiver {
	return func() receiver {
		a := &pod{ports: ports, number: number, carryovers: newCarryovers(rt, ports)}
		a.supervision = supervision{
			base: base{rt, rt.addresses.pod}, escalate: a.onEscalated,
			stops: func(child string) bool { return a.dead && !survives(child) },
		}
		return a
	}
}

// newCarryovers returns the state that the first incarnations begin with.
func newCarryovers(rt *runtime, ports *Ports) *carryovers {
	return &carryovers{
		intake: &intakeState{abandoned: map[int64]bool{}}, feed: &feedState{waiters: newWaiters(rt, ports.Store)}, claimer: &claimerState{reservations: map[requester]*reservation{}}, journal: &journalState{granting: true}, leader: &leaderState{},
		runs:  &runsState{ledger: newLedger(rt.config.pools(), rt.config.StuckMax)},
		pulse: &pulseState{renewed: rt.now(), state: lifecycle.LeaseLive},
	}
}

// Receive implements protoactor's Actor.
func (a *pod) Receive(ctx actorContext) {
	defer func() {
		if r := recover(); r != nil {
			a.onPanic(r)
		}
	}()
	a.ctx = ctx
	switch msg := ctx.Message().(type) {
	case *started:
		a.spawnAll()
	case *messages.TriggerRun:
		ctx.Forward(a.rt.addresses.intake)
	case *messages.SendSignal:
		ctx.Forward(a.rt.addresses.intake)
	case *messages.CancelRun:
		a.onCancelRun(msg)
	case *messages.AwaitRun:
		ctx.Forward(a.rt.addresses.feed)
	case *messages.PodDied:
		a.onPodDied(msg)
	case *terminated:
		a.onTerminated()
	case *happened:
		a.handle(msg)
	case *stopPod:
		a.advance(stageIntake)
	case *numbersChanged:
		a.fail(msg.err)
	case *actorGone:
		a.lost = true
		a.fail(msg.err)
	case *killPod:
		a.kill()
	case *messages.IntakeDrained:
		a.finished(stageIntake)
	case *messages.ClaimingStopped:
		a.finished(stageClaims)
	case *messages.RunsDrained:
		a.onRunsDrained()
	case *messages.JournalFlushed:
		a.finished(stageFlush)
	case *messages.Resigned:
		a.finished(stageResign)
	case *messages.FeedClosed:
		a.finished(stageFeed)
	case *listChildren:
		msg.answer(ctx)
	case *restarting, *stopping:
		a.off = true
	case *stopped:
		a.end()
	default:
		a.rt.unknown(podName, msg)
	}
}

// end tells all callers that the pod has ended.
func (a *pod) end() {
	a.rt.guarded(podName, a.refuseRest)
	a.rt.status.end(a.ending())
}

// ending is why the pod has ended, unless an error was set before.
func (a *pod) ending() error {
	switch {
	case a.failed != nil:
		return a.failed
	case a.stage == stageEnded:
		return nil
	}
	return ErrPodStopped
}

// refuseRest answers the questions that the actors did not answer before they ended.
func (a *pod) refuseRest() {
	gone := triggerAnswers{refused: refuse(Unavailable, "", "the pod has ended: trigger again with the same key")}
	for _, q := range a.carryovers.intake.waiting {
		if !q.done {
			q.answer(gone)
		}
	}
	for _, j := range a.carryovers.intake.judging {
		j.answer(gone)
	}
	for _, q := range a.carryovers.intake.signals {
		if !q.done {
			q.answer(signalAnswer{refused: refuse(Unavailable, "", "the pod has ended: send again with the same id")})
		}
	}
	for _, q := range a.carryovers.journal.cancels {
		q.answer(persistence.Canceled{}, ErrEnded)
	}
	a.carryovers.feed.waiters.refuseAll("the pod has ended: ask another one")
}

// onCancelRun forwards a cancel, or refuses it while the journal is stopped.
func (a *pod) onCancelRun(m *messages.CancelRun) {
	if !a.dead {
		a.ctx.Forward(a.rt.addresses.journal)
		return
	}
	if sender := a.ctx.Sender(); sender != nil {
		a.rt.send(sender, cancelRefused(m, errRejoining))
	}
}

// errRejoining refuses a cancel while the pod joins again.
var errRejoining = errors.New("the pod is joining the cluster again")

// survives reports whether an actor keeps running while the pod joins again: it acts under
// no lease, and callers wait for its answers.
func survives(name string) bool { return name == "intake" || name == "feed" }

func (a *pod) spawnAll() {
	again := len(a.children) > 0
	a.children = a.children[:0]
	for _, m := range childrenOf(podName) {
		if again && survives(m.name) {
			continue
		}
		pid, err := a.ctx.SpawnNamed(a.rt.props(m.name, a.producer(m.name)), m.name)
		if err != nil {
			a.onEscalated(m.name, err)
			return
		}
		if !survives(m.name) {
			a.children = append(a.children, pid)
		}
	}
	a.rt.status.begin()
}

// producer makes the incarnations of a child.
func (a *pod) producer(name string) func() receiver {
	rt, ports, c := a.rt, a.ports, a.carryovers
	return map[string]func() receiver{
		"journal": spawnJournal(rt, ports, a.number, c.journal), "runs": spawnRuns(rt, ports, c.runs),
		"pulse": spawnPulse(rt, ports, a.number, c.pulse), "claimer": spawnClaimer(rt, ports, a.number, c.claimer),
		"intake": spawnIntake(rt, ports, c.intake), "leader": spawnLeader(rt, ports, a.number, c.leader), "feed": spawnFeed(rt, ports, c.feed),
	}[name]
}

// onEscalated ends the pod: supervision could not mend it.
func (a *pod) onEscalated(child string, reason any) {
	a.fail(fmt.Errorf("%w: %s: %v", ErrSupervision, child, reason))
}

// fail ends the pod, for the first of such reasons.
func (a *pod) fail(err error) {
	if a.failed == nil {
		a.failed = err
	}
	a.rt.send(a.rt.addresses.pod, &killPod{})
}

// onPanic ends the pod: it holds the state that the other actors need to start again.
func (a *pod) onPanic(reason any) {
	a.rt.log.LogAttrs(context.Background(), slog.LevelError, "the pod's actor failed",
		slog.Int64("pod_id", a.number), slog.Any("reason", reason), slog.String("stack", string(debug.Stack())))
	if a.failed != nil || a.stage >= stageLeave {
		a.ctx.Stop(a.rt.addresses.pod)
	}
	a.onEscalated(podName, reason)
}

// onPodDied begins anew under another number: the tasks that this pod held are no longer
// its own. Triggers that wait to be stored are kept, and so are callers that wait for the
// end of a run or for a cancel.
func (a *pod) onPodDied(m *messages.PodDied) {
	switch {
	case m.GetPod() != a.number || a.dead || a.disowned:
		return
	case a.stage != 0:
		a.disown()
		return
	}
	a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "this pod was declared dead, joining again",
		slog.Int64("pod_id", a.number))
	a.dead, a.gone = true, 0
	for i := len(a.children) - 1; i >= 0; i-- {
		a.ctx.Stop(a.children[i])
	}
}

func (a *pod) onTerminated() {
	if !a.dead || a.stage != 0 {
		return
	}
	if a.gone++; a.gone == len(a.children) {
		a.join()
	}
}

func (a *pod) join() {
	if a.joining.open() || a.stage != 0 {
		return
	}
	rt, lease := a.rt, persistence.Lease(a.ports.Store)
	ask(&a.base, &a.joining, "join_pod", storeTimeout, func(ctx context.Context) (int64, error) {
		number, _, err := lease.JoinPod(ctx, rt.podInfo())
		return number, err
	}, a.onJoined)
}

func (a *pod) onJoined(number int64, err error) {
	if a.stage != 0 { // stopped meanwhile
		if err == nil {
			a.number = number
		}
		a.leave()
		return
	}
	if errors.Is(err, persistence.ErrNumbersChanged) {
		a.fail(err)
		return
	}
	if wait, failed := a.joining.failed(a.rt, "join_pod", err); failed {
		a.later(wait, a.join)
		return
	}
	a.dead, a.number = false, number
	a.rt.status.joined(a.number)
	a.rt.status.with((*podFacts).reportedAlive)
	kept := a.carryovers
	a.carryovers = newCarryovers(a.rt, a.ports)
	a.carryovers.intake, a.carryovers.feed = kept.intake, kept.feed
	a.carryovers.journal.cancels = kept.journal.cancels
	a.carryovers.leader.term = kept.leader.term // to be resigned
	a.spawnAll()
}

// podInfo describes this pod to the database.
func (rt *runtime) podInfo() persistence.PodInfo {
	return persistence.PodInfo{
		Name: rt.config.PodName, Handlers: rt.handlers, Queues: rt.config.queues(),
		Slots: rt.config.slots(), TTL: rt.config.LeaseTTL, Version: rt.config.Version,
		Protocol: persistence.Protocol,
	}
}

// carryovers are the states that actors carry over to their next incarnation.
type carryovers struct {
	intake  *intakeState
	claimer *claimerState
	runs    *runsState
	journal *journalState
	pulse   *pulseState
	leader  *leaderState
	feed    *feedState
}
