package actors

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// intake stores triggers, all that came during the last commit in one
// transaction, and starts the runs that the embedder stored in transactions of
// its own.
//
// Owns: the messages whose inputs are looked at; the triggers that wait to be
// stored; the one trigger batch and the one drain of the intake table that are
// under way.
// Parent: pod.
// Accepts: TriggerRun, RunsSubmitted, DrainIntake.
// Sends: RunTriggered, TriggerRefused, IntakeDrained, WorkReady, TablesChanged.
// On failure: restart with backoff. What waits is carried over and stored
// under the same run ids.
type intake struct {
	rt       *runtime
	self     *PID
	heir     *intakeHeir
	batch    []*question
	number   int64 // of the trigger call under way; 0: none
	failures int   // trigger calls failed in a row
	pause    int64 // of the wait before the next trigger call; 0: none
	drain    drain
}

// intakeHeir is what the next incarnation of intake goes on with.
type intakeHeir struct {
	waiting   []*question    // in the order of their arrival
	rows      int            // triggers in them
	judging   []*judging     // messages whose inputs are looked at first
	abandoned map[int64]bool // looks that were given up and have not ended
	stopping  bool           // new triggers are refused
	told      bool           // IntakeDrained was sent
}

// question is one question to intake: triggers that are stored all or none, and
// who waits for the answer.
type question struct {
	triggers []persistence.Trigger
	bytes    int
	deadline time.Time            // local; then it is answered Unavailable
	busyTo   time.Time            // its key is held by another transaction until then, at least
	busy     int                  // how often it was
	held     atomic.Bool          // it was: the caller is told so if it gives up
	done     bool                 // answered; taken off the list at the next flush
	asked    bool                 // in the batch under way
	gone     func() bool          // nobody waits any more; nil: never
	taken    func() bool          // marks it as taken in, and reports whether it was before; nil: sent once
	answer   func(triggerAnswers) // called once
}

// triggerAnswers answers one question: what was stored, or why nothing was.
type triggerAnswers struct {
	answers []persistence.TriggerAnswer
	refused *Refusal
}

// drain is how far reading the intake table has come.
type drain struct {
	number   int64 // of the call under way; 0: none
	again    bool  // woken during the call, or during the wait after one
	waits    bool  // a failed call is made again later
	failures int
}

// triggerCall is a question from the edge, which has checked it.
type triggerCall struct{ ask *question }

// intakePause ends a wait before the next trigger call.
type intakePause struct{ number int64 }

// drainAgain is a delayed drain.
type drainAgain struct{}

func spawnIntake(rt *runtime, _ int64, h *heirs) func() receiver {
	return func() receiver { return &intake{rt: rt, self: rt.team.intake, heir: h.intake} }
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
	case *judged:
		a.onJudged(msg)
	case *judgeLate:
		a.onJudgeLate(msg)
	case *answered[persistence.Triggers]:
		a.onTriggered(msg)
	case *intakePause:
		a.onPause(msg)
	case *messages.RunsSubmitted:
		a.onRunsSubmitted()
	case *drainAgain:
		a.drain.waits = false
		a.onRunsSubmitted()
	case *answered[persistence.Drained]:
		a.onDrained(msg)
	case *messages.DrainIntake:
		a.onDrainIntake()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("intake", msg)
	}
}

// onStarted looks into the intake table once: nobody wakes a pod for what was
// submitted while none lived.
func (a *intake) onStarted() {
	for _, q := range a.heir.waiting {
		q.asked = false // of the last incarnation: under the same run ids it is safe to ask again
	}
	a.onRunsSubmitted()
	a.judgeAgain()
	a.flush()
}

// accept takes a question in, unless there is no room. Calls from the edge
// hold permits for what they ask, so only messages can find it full.
func (a *intake) accept(q *question) {
	if q.taken != nil && q.taken() {
		return
	}
	switch {
	case a.heir.stopping:
		q.answer(triggerAnswers{refused: refuseStopping()})
	case q.taken == nil && a.heir.rows >= a.rt.config.IntakePending:
		q.answer(triggerAnswers{refused: refuseFull()})
	default:
		if a.heir.rows >= 2*a.rt.config.IntakePending { // callers that gave up hold no permit any more
			a.dropLate()
		}
		a.heir.waiting = append(a.heir.waiting, q)
		a.heir.rows += len(q.triggers)
		a.flush()
	}
}

// flush stores the next batch unless one is under way.
func (a *intake) flush() {
	a.rt.meter.set(MetricTriggerPending, float64(a.heir.rows))
	if a.number != 0 || a.pause != 0 {
		return
	}
	a.dropLate()
	batch, wait := nextBatch(a.heir.waiting, a.rt.now())
	if len(batch) == 0 {
		if wait > 0 {
			a.wait(wait)
		}
		a.tellDrained()
		return
	}
	a.batch = batch
	var rows []persistence.Trigger
	for i, q := range batch {
		q.asked = true
		for _, t := range q.triggers {
			if len(q.triggers) > 1 {
				t.Group = i + 1
			}
			rows = append(rows, t)
		}
	}
	a.rt.meter.observe(MetricTriggerBatch, float64(len(rows)))
	a.number = ask(a.rt, a.self, "trigger_runs", storeTimeout, func(ctx context.Context) (persistence.Triggers, error) {
		return a.rt.ports.Store.TriggerRuns(ctx, rows)
	})
}

// onTriggered answers a batch, or keeps all of it to be stored again: the run
// ids stay the same, so a batch that was stored after all is answered as such.
func (a *intake) onTriggered(m *answered[persistence.Triggers]) {
	if m.number != a.number {
		return
	}
	batch := a.batch
	a.number, a.batch = 0, nil
	for _, q := range batch {
		q.asked = false
	}
	if m.err != nil {
		a.failures++
		a.rt.storeFailed("trigger_runs", m.err)
		if errors.Is(m.err, persistence.ErrBadRow) && len(batch) == 1 {
			a.finish(batch[0], triggerAnswers{refused: refuse(BadInput, "", m.err.Error())})
		}
		a.wait(a.rt.retryDelay(a.failures))
		return
	}
	a.failures = 0
	a.rt.edge.sawDatabaseTime(m.value.Now, a.rt.now())
	answers := m.value.Answers
	for _, q := range batch {
		n := len(q.triggers)
		if len(answers) < n {
			break // a store that answers too few: the rest is asked again
		}
		a.settle(q, answers[:n:n])
		answers = answers[n:]
	}
	a.rt.spread(m.value.Wake)
	a.flush()
}

// settle answers one question, or sets it aside while its key is busy.
func (a *intake) settle(q *question, answers []persistence.TriggerAnswer) {
	refused := refusalOf(q.triggers, answers)
	if refused == errKeyBusy {
		q.busy++
		q.held.Store(true)
		q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.busy))
		return
	}
	a.finish(q, triggerAnswers{answers: answers, refused: refused})
}

func (a *intake) finish(q *question, answer triggerAnswers) {
	result := "triggered"
	if answer.refused != nil {
		result = string(answer.refused.Code)
	}
	a.rt.meter.add(MetricTriggers, float64(len(q.triggers)), result)
	q.done = true
	a.heir.rows -= len(q.triggers)
	q.answer(answer)
}

// dropLate answers what has waited for too long, and takes off what is answered.
func (a *intake) dropLate() {
	now := a.rt.now()
	for _, q := range a.heir.waiting {
		switch {
		case q.done, q.asked:
		case q.gone != nil && q.gone():
			a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", "the caller has gone")})
		case !q.deadline.IsZero() && now.After(q.deadline):
			a.finish(q, triggerAnswers{refused: refuse(Unavailable, "", "not stored in time: trigger again with the same key")})
		}
	}
	a.heir.waiting = slices.DeleteFunc(a.heir.waiting, func(q *question) bool { return q.done })
}

// wait puts off the next trigger call.
func (a *intake) wait(d time.Duration) {
	a.pause = a.rt.numbers.next()
	a.rt.after(d, a.self, &intakePause{number: a.pause})
}

func (a *intake) onPause(m *intakePause) {
	if m.number == a.pause {
		a.pause = 0
		a.flush()
	}
}

// onRunsSubmitted starts runs of the intake table, until there are none.
func (a *intake) onRunsSubmitted() {
	if a.drain.number != 0 || a.drain.waits {
		a.drain.again = true
		return
	}
	a.drain.again = false
	limit := a.rt.batch("drain one", drainBatch)
	a.drain.number = ask(a.rt, a.self, "drain_intake", storeTimeout, func(ctx context.Context) (persistence.Drained, error) {
		return a.rt.ports.Store.DrainIntake(ctx, limit)
	})
}

func (a *intake) onDrained(m *answered[persistence.Drained]) {
	if m.number != a.drain.number {
		return
	}
	a.drain.number = 0
	if m.err != nil {
		a.drain.failures++
		a.drain.waits = true
		a.rt.storeFailed("drain_intake", m.err)
		a.rt.after(a.rt.retryDelay(a.drain.failures), a.self, &drainAgain{})
		return
	}
	a.drain.failures = 0
	a.rt.spread(m.value.Wake)
	if m.value.More || a.drain.again {
		a.onRunsSubmitted()
	}
}

func (a *intake) onDrainIntake() {
	a.heir.stopping = true
	a.flush()
}

func (a *intake) tellDrained() {
	if a.heir.stopping && !a.heir.told && len(a.heir.waiting)+len(a.heir.judging) == 0 {
		a.heir.told = true
		a.rt.send(a.rt.team.pod, &messages.IntakeDrained{})
	}
}

// answerTo returns how an actor is answered; nobody is if it left no address.
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
