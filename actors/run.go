package actors

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// run executes one claimed task: one attempt, from the grant to the answer of
// the journal.
//
// Owns: the attempt's context, its timeouts, and its outcome until it is
// answered.
// Parent: runs.
// Accepts: EndAttempts, OutcomeAnswered, RepeatOutcomes.
// Sends: ReportOutcome, OutcomesAnswered, AttemptAbandoned, ProgressMade,
// WorkReady, TablesChanged.
// On failure: stopped; runs reports the task lost.
type run struct {
	base
	ports        runPorts
	task         *messages.StartTask
	key          taskKey
	name         string // of the actor
	pool         string
	function     *StepFunction   // nil: it is not registered here
	ctx          context.Context //nolint:containedctx // the attempt's, ended by messages
	cancel       context.CancelCauseFunc
	attempt      *attemptState
	inputs       Inputs    // until the attempt begins
	missing      []missing // of inputs
	elements     *Elements // of a map that gathers what they gave, while they are read
	permit       *permit   // to read what is missing; nil once the attempt has it
	waits        bool      // it is not granted
	held         int64     // bytes of payloads that are held until the actor ends
	timers       []func()
	quiet        func() // stops the heartbeat timer
	outcome      *messages.ReportOutcome
	reported     time.Time // when the outcome was last sent
	began        time.Time // when the step function was called
	timed        bool      // the attempt's timeouts run
	returned     bool      // it has returned, or was never called
	answered     bool
	unresponsive bool // it was told so
	resting      bool // the task is handed back after a pause
}

// runPorts are the ports of a run actor.
type runPorts struct {
	journal persistence.Journal
	runs    persistence.Runs
}

// attemptTimeout tells a run actor that a timeout of its attempt is over.
type attemptTimeout struct {
	cause error
	due   time.Time
}

// firstGrant is the epoch of a task that is granted for the first time.
const firstGrant = 2

// restFor is how long a run actor keeps a task that the database would not let it execute
// before it hands it back: the next pod would meet the same error, and the task would go
// round as fast as the database allows.
const restFor = time.Second

// restLost is the same for a task with unreadable inputs.
const restLost = 10 * time.Second

func newRun(rt *runtime, ports runPorts, task *messages.StartTask, h *held) *run {
	return &run{base: base{rt: rt}, ports: ports, task: task, key: h.key, name: h.name, pool: h.pool, function: functionFor(rt, task)}
}

// Receive implements protoactor's Actor.
func (a *run) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.self = ctx.Self()
		a.onStarted()
	case *payloadsGranted:
		a.onGranted()
	case *happened:
		a.handle(msg)
	case *attemptBegun:
		a.onBegun()
	case *attemptBeat:
		a.onBeat()
	case *attemptTimeout:
		a.onTimeout(msg)
	case *attemptEnded:
		a.onEnded(ctx, msg)
	case *messages.EndAttempts:
		a.end(causeOf(msg.GetCause()))
	case *messages.OutcomeAnswered:
		a.onAnswered(ctx, msg)
	case *messages.RepeatOutcomes:
		a.report()
	case *repeatUnanswered:
		if a.rt.now().Sub(a.reported) >= resendAfter {
			a.report()
		}
	case *stopping:
		a.rt.guarded("run", func() { a.close(a.stopCause()) })
	case *restarting, *stopped:
	default:
		a.rt.unknown("run", msg)
	}
}

func (a *run) onStarted() {
	a.ctx, a.cancel = context.WithCancelCause(a.rt.lifetime)
	if a.function == nil {
		a.returned = true
		a.settle(&messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED})
		return
	}
	if a.function.Workflow != a.task.GetWorkflow() || a.function.Step != cmp.Or(a.task.GetDeclared(), a.task.GetStepName()) { // the handler numbers were changed
		a.rt.log.LogAttrs(context.Background(), slog.LevelError,
			"the database numbers this step as another one of this process, which is not executed for it: restart the process",
			slog.String("run_id", a.key.task.Run.String()), slog.String("workflow", a.task.GetWorkflow()), slog.String("step", a.task.GetStepName()))
		a.rest(restFor)
		return
	}
	if a.task.GetCanceling() {
		a.cancel(ErrCanceled)
	}
	if a.function.First && a.key.epoch == firstGrant {
		a.rt.recorder.observe(MetricTriggerToStart, instant(a.task.GetStartedAt()).Sub(instant(a.task.GetBegunAt())).Seconds())
	}
	a.load()
}

// execute calls the step function on a goroutine of the executor, unless the pod has
// released the task already.
func (a *run) execute() {
	if cause := context.Cause(a.ctx); cause != nil && !errors.Is(cause, ErrCanceled) {
		a.giveUp()
		return
	}
	rt, f := a.rt, a.function
	attempt := &attemptState{rt: rt, to: a.self, key: a.key, task: a.task, function: f, permit: a.permit}
	attempt.ctx = WithAttempt(a.ctx, attempt)
	inputs := a.inputs
	inputs.Once = !f.Options.InTx // whose transaction may be repeated
	a.attempt, a.inputs, a.missing = attempt, Inputs{}, nil
	call := func() *attemptEnded { return plainAttempt(attempt.ctx, f, inputs) }
	switch {
	case a.task.GetKept():
		output := a.task.GetLastProgress()
		call = func() *attemptEnded { return keptAttempt(attempt.ctx, f, output) }
	case f.Options.InTx:
		call = a.inTx(inputs)
	case a.isMap():
		call = a.mapAttempt(inputs)
	}
	if a.task.GetKept() || !f.Options.InTx {
		a.onBegun()
	}
	a.began = rt.now()
	attempt.inflight = rt.inflight.begin(a.name, a.pool)
	rt.executor.Execute(a.self, a.key.task, func(deliver func(any)) { attempt.execute(deliver, call) })
	a.permit = nil // which the function gives back now
}

// timeout limits the attempt; 0: nothing does.
func (a *run) timeout() time.Duration {
	switch options := &a.function.Options; {
	case a.isMap(): // they are its elements'
	case options.AttemptTimeout > 0:
		return options.AttemptTimeout
	case options.InTx:
		return a.rt.config.InTxTimeout
	}
	return a.rt.config.AttemptTimeout
}

// isMap reports whether the task is a map itself.
func (a *run) isMap() bool { return a.function.Map != nil && !a.function.isElement(a.task) }

// heartbeatLimit limits the silence of the attempt; 0: nothing does.
func (a *run) heartbeatLimit() time.Duration {
	if a.isMap() { // it is its elements'
		return 0
	}
	return a.function.Options.HeartbeatLimit
}

// mapAttempt is the call of a map before its first element, or after its last one. Config.Wrap
// goes around its elements.
func (a *run) mapAttempt(inputs Inputs) func() *attemptEnded {
	attempt, f, elements := a.attempt, *a.function, a.elements
	a.elements = nil
	f.Wrap = nil
	f.Call = f.Map.Split
	if elements != nil {
		f.Call = func(ctx context.Context, _ Inputs) (Output, error) { return f.Map.Gather(ctx, elements) }
	}
	return func() *attemptEnded { return plainAttempt(attempt.ctx, &f, inputs) }
}

// end ends the attempt's context. A function that does not react is reported after a
// while.
func (a *run) end(cause error) {
	if cause == nil || a.ctx == nil || a.ctx.Err() != nil {
		return
	}
	a.cancel(cause)
	a.listen()
	switch {
	case a.resting:
		a.release()
	case a.waits:
		a.giveUp()
	}
}

// rest hands the task back after a pause.
func (a *run) rest(pause time.Duration) {
	a.returned, a.resting = true, true
	a.timers = append(a.timers, a.later(pause, a.release))
}

// release hands the task back, unless it was answered meanwhile.
func (a *run) release() {
	if a.resting && !a.answered {
		a.resting = false
		a.settle(&messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED})
	}
}

// listen gives a function whose context has ended a while to return.
func (a *run) listen() {
	if a.attempt != nil && !a.returned {
		a.timers = append(a.timers, a.later(unresponsiveAfter, a.onUnresponsive))
	}
}

// onUnresponsive reports an attempt whose function ignores the end of its context. While
// the run is being canceled, the grace of the cancel decides.
func (a *run) onUnresponsive() {
	cause := context.Cause(a.ctx)
	if a.returned || a.unresponsive || errors.Is(cause, ErrCanceled) && !a.answered {
		return
	}
	a.unresponsive = true
	a.rt.payloads.detach(a.attempt.permit)
	a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "step function still runs after the end of its context",
		append(a.named(), slog.Any("cause", cause))...)
	a.rt.send(a.rt.addresses.runs, &messages.AttemptAbandoned{Task: a.task.GetTask()})
	if !a.answered {
		a.settle(a.judge(&attemptEnded{failed: failureOf(cause, nil)}))
	}
}

// named logs which step function ignores its context; only its author can fix that.
func (a *run) named() []slog.Attr {
	return []slog.Attr{
		slog.String("run_id", a.key.task.Run.String()), slog.String("workflow", a.task.GetWorkflow()),
		slog.String("step", a.task.GetStepName()), slog.Duration("running_for", a.rt.now().Sub(a.began)),
	}
}

func (a *run) onBeat() {
	if a.attempt == nil || a.returned {
		return
	}
	a.armHeartbeat(a.heartbeatLimit())
	if progress := a.attempt.take(); progress != nil {
		a.rt.send(a.rt.addresses.runs, &messages.ProgressMade{Task: a.task.GetTask(), Progress: progress})
	}
}

func (a *run) onEnded(ctx actorContext, m *attemptEnded) {
	a.returned = true
	a.stopTimers()
	if m.failed != nil && m.failed.crash != nil {
		a.logPanic(m.failed.crash)
	}
	if a.unresponsive {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "step function has returned at last", a.named()...)
	}
	if a.timed && !a.rt.recorder.none { // the function was called
		a.rt.recorder.observe(MetricAttemptSeconds, a.rt.now().Sub(a.began).Seconds(), a.function.duration...)
	}
	if a.answered {
		ctx.Stop(a.self)
		return
	}
	if a.outcome != nil { // it was given up as unresponsive, and that is its outcome
		a.rt.send(a.rt.addresses.runs, &functionReturned{name: taskName(a.key)})
		a.report()
		return
	}
	if m.recorded != nil {
		a.rt.announce(m.recorded.Wake)
		a.countAttempt(outcomeSucceeded, "")
		a.outcome = &messages.ReportOutcome{Task: a.task.GetTask()}
		a.rt.send(a.rt.addresses.runs, &messages.OutcomesAnswered{Answers: []*messages.OutcomeAnswered{
			{Task: a.task.GetTask(), Result: answerName(m.recorded.Answers[0].Result)},
		}})
		return
	}
	outcome := a.judge(m)
	if m.handBack != nil && !errors.Is(m.handBack, errHeld) && a.ctx.Err() == nil {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "the step was not executed, or its transaction not kept: handing it back",
			append(a.named(), slog.Any("error", m.handBack))...)
		a.rest(restFor)
		return
	}
	a.settle(outcome)
}

// settle keeps the outcome and reports it.
func (a *run) settle(outcome *messages.ReportOutcome) {
	outcome.Task, outcome.Pool = a.task.GetTask(), a.pool
	if a.attempt != nil {
		outcome.Progress = a.attempt.take()
	}
	a.outcome = outcome
	a.hold(reported(outcome))
	a.report()
}

// report sends the outcome; again when runs says so, until it is answered: the journal may
// have lost it with a restart.
func (a *run) report() {
	if a.outcome == nil || a.answered || a.outcome.GetKind() == 0 {
		return
	}
	a.reported = a.rt.now()
	a.rt.send(a.rt.addresses.journal, a.outcome)
}

// onAnswered ends the actor once its function has returned. Until then it represents the
// slot that the function uses.
func (a *run) onAnswered(ctx actorContext, m *messages.OutcomeAnswered) {
	again := a.answered
	a.answered = true
	if !again {
		a.logUnheard(m)
	}
	switch {
	case a.returned || a.attempt == nil:
		ctx.Stop(a.self)
	case !again && !a.unresponsive && a.ctx.Err() != nil:
		a.listen()
	}
}

func (a *run) stopTimers() {
	for _, stop := range a.timers {
		stop()
	}
	a.timers = nil
	if a.quiet != nil {
		a.quiet()
	}
}

// stopCause is why the context of an attempt ends whose actor is stopped.
func (a *run) stopCause() error {
	if a.rt.status.get().stopping {
		return ErrStopping
	}
	return ErrLeaseLost
}

func (a *run) close(cause error) {
	a.stopTimers()
	a.letGo()
	if a.cancel != nil {
		a.cancel(cause)
	}
}
