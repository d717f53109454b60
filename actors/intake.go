package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// intake stores triggers and signals, all that came during the last commit in one
// transaction each, starts the runs that the embedder stored in transactions of its own,
// and delivers signals. While the pod has slots to spare, it reserves some for the first
// tasks of the runs: they are granted in the transaction that stores them.
//
// Owns: the messages whose inputs are examined; the triggers and signals that wait to be
// stored; the one trigger batch, the one batch of signals and the one drain of the intake
// table that are under way.
// Parent: pod.
// Accepts: TriggerRun, SendSignal, SlotsReserved, RunsSubmitted, DrainIntake.
// Sends: RunTriggered, TriggerRefused, SignalStored, SignalRefused, ReserveSlots,
// SlotsReleased, IntakeDrained, WorkReady, TablesChanged.
// On failure: restart with backoff. Waiting triggers are carried over and stored
// under the same run ids, signals under the same ids of theirs; a batch with reserved slots
// whose outcome is unknown is stored again as it was.
type intake struct {
	base
	port        persistence.Intake
	inbox       persistence.Inbox
	carryover   *intakeState
	call        call      // of triggers
	began       time.Time // when it did
	pause       timer     // of the wait before the next trigger call
	idle        bool      // that wait is for triggers that were set aside, not for the server
	linger      linger
	crowd       int // questions in the last batch
	limit       triggerLimit
	slotRequest slotRequest
	reservedIn  string // queue whose pool the requested slots are of
	drain       drain
	signals     signalSending
}

// intakeState is what survives a restart of intake.
type intakeState struct {
	waiting   []*question       // in the order of their arrival
	open      *openTrigger      // under way, or its outcome is unknown
	rows      int               // triggers in them
	judging   []*judging        // messages whose inputs are looked at first
	abandoned map[int64]bool    // looks that were given up and have not ended
	signals   []*signalQuestion // in the order of their arrival
	stopping  bool              // new triggers and signals are refused
	told      bool              // IntakeDrained was sent
}

// question is one question to intake: triggers that are stored all or none, and how to
// answer the caller.
type question struct {
	asker

	triggers []persistence.Trigger
	bytes    int
	busyTo   time.Time            // its key, or its tenant, is locked by another transaction until then, at least
	busy     int                  // how often it was
	held     atomic.Bool          // it was: the caller is told so if it gives up
	lacks    int                  // how often the server lacked resources for it alone
	done     bool                 // answered; taken off the list at the next flush
	asked    bool                 // in the batch under way
	answer   func(triggerAnswers) // called once
}

// openTrigger is one batch until it is answered.
type openTrigger struct {
	questions   []*question
	reservation *messages.SlotsReserved // of slots for the first tasks; nil: none
	take        persistence.GrantRequest
	long        int // how often it failed slowly
}

// triggerAnswers answers one question: what was stored, or why nothing was.
type triggerAnswers struct {
	answers []persistence.TriggerAnswer
	refused *Refusal
	err     error // of the database, for callers, if that says more than refused
}

// drain is how far reading the intake table has come.
type drain struct {
	call  call
	again bool // woken during the call, or during the wait after one
	waits bool // nothing is drained before the timer
	timer timer
	limit vitals.BatchLimit
}

// triggerCall is a question of a caller, which Pod has checked it.
type triggerCall struct{ ask *question }

const (
	// drainStuck is how many failures a drain counts as that stored none of what is left.
	drainStuck = 4
	// drainPauseMax is the longest wait for submissions that a drain left out.
	drainPauseMax = 10 * time.Second
)

func spawnIntake(rt *runtime, ports *Ports, h *intakeState) func() receiver {
	return func() receiver {
		return &intake{base: base{rt, rt.addresses.intake}, port: ports.Store, inbox: ports.Store, carryover: h}
	}
}

// Receive implements protoactor's Actor.
func (a *intake) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *triggerCall:
		a.accept(msg.ask)
	case *messages.TriggerRun:
		a.onTriggerRun(ctx.Sender(), msg)
	case *signalCall:
		a.acceptSignal(msg.ask)
	case *messages.SendSignal:
		a.onSendSignal(ctx.Sender(), msg)
	case *judged:
		a.onJudged(msg)
	case *happened:
		a.handle(msg)
	case *messages.SlotsReserved:
		a.onSlotsReserved(msg)
	case *messages.RunsSubmitted:
		a.onRunsSubmitted()
	case *messages.DrainIntake:
		a.onDrainIntake()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("intake", msg)
	}
}

// onStarted drains the intake table once: no wake tells of runs that were submitted while
// no pod lived. It is safe to repeat the last incarnation's questions under the same run ids.
func (a *intake) onStarted() {
	if a.carryover.giveUp(); a.carryover.open == nil {
		a.rt.hasNoReservation(false)
	}
	a.onRunsSubmitted()
	a.judgeAgain()
	a.flush()
	a.flushSignals()
}

// accept takes a question in, unless there is no room. Calls of the API hold permits for
// their triggers, so only messages can find it full.
func (a *intake) accept(q *question) {
	if q.again() {
		return
	}
	switch {
	case a.carryover.stopping:
		q.answer(triggerAnswers{refused: refuseStopping()})
	case q.taken == nil && a.full():
		q.answer(triggerAnswers{refused: refuseFull()})
	default:
		if a.carryover.rows >= 2*a.rt.config.IntakePending { // callers that gave up no longer hold permits
			a.dropLate()
		}
		a.carryover.waiting = append(a.carryover.waiting, q)
		a.carryover.rows += len(q.triggers)
		a.waitNoLonger(q)
		a.flush()
	}
}

// full reports whether as much waits to be stored as may.
func (a *intake) full() bool {
	return a.carryover.rows+len(a.carryover.signals) >= a.rt.config.IntakePending
}

// onRunsSubmitted starts the runs of the intake table, and delivers signals.
func (a *intake) onRunsSubmitted() {
	if a.drain.call.open() || a.drain.waits {
		a.drain.again = true
		return
	}
	a.drain.again = false
	limit := a.rt.batch("drain one", a.drain.limit.Begin(drainBatch, a.rt.now()))
	ask(&a.base, &a.drain.call, "drain_intake", storeTimeout, func(ctx context.Context) (persistence.Drained, error) {
		return a.port.DrainIntake(ctx, limit)
	}, a.onDrained)
}

func (a *intake) onDrained(drained persistence.Drained, err error) {
	delivered := max(drained.Delivered+drained.Dropped, drained.Requests)
	a.drain.limit.Ended(max(drained.Count, delivered), a.rt.now(), err)
	if wait, failed := a.drain.call.failed(a.rt, "drain_intake", err); failed {
		a.drainAfter(wait, true)
		return
	}
	a.rt.announce(drained.Wake)
	a.countDelivered(&drained)
	switch {
	case drained.More && drained.Count+delivered > 0 || a.drain.again:
		a.onRunsSubmitted()
	case drained.More: // none of what is left could be stored
		a.drainAfter(a.rt.retryDelay(drainStuck), true)
	case drained.Again > 0: // submissions of other tenants need not wait for that
		a.drainAfter(min(drained.Again, drainPauseMax), false)
	}
}

// drainAfter drains again after a pause. waits: nothing is drained before.
func (a *intake) drainAfter(pause time.Duration, waits bool) {
	a.drain.waits = waits
	a.drain.timer.set(&a.base, pause, func() {
		a.drain.waits = false
		a.onRunsSubmitted()
	})
}

func (a *intake) onDrainIntake() {
	a.carryover.stopping = true
	a.flush()
	a.flushSignals()
}

func (a *intake) tellDrained() {
	rest := len(a.carryover.waiting) + len(a.carryover.judging) + len(a.carryover.signals)
	if a.carryover.stopping && !a.carryover.told && rest == 0 && a.carryover.open == nil {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.IntakeDrained{})
	}
}

// dropReservation ends the reservation of a batch of which no task was granted.
func (a *intake) dropReservation(open *openTrigger) {
	a.rt.releaseSlots(open.reservation, nil)
	open.reservation = nil
}

// answerTo returns a function that answers an actor, if it left an address.
func (a *intake) answerTo(sender *PID, request string) func(triggerAnswers) {
	return func(answer triggerAnswers) {
		switch {
		case sender == nil:
		case answer.refused != nil:
			a.rt.send(sender, answer.refused.asMessage(request))
		default:
			first := answer.answers[0]
			a.rt.send(sender, &messages.RunTriggered{
				RequestId: request, Run: first.Run[:], Existing: first.Result == persistence.Existing,
			})
		}
	}
}
