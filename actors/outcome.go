package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// judge turns the end of an attempt into a report. A success counts, whatever happened
// meanwhile. An error after the pod released the task is not the step's. A timeout is
// charged, unless the step has InTx and the database was away: its statements waited for
// that. A step that has ended its transaction fails. If the attempt was recorded after
// all, the report is stale.
func (a *run) judge(m *attemptEnded) *messages.ReportOutcome {
	what, size, limit := "output", len(m.output.Payload), a.rt.config.PayloadLimit
	if m.output.Child != nil {
		what, size = "input of the child run", len(m.output.Child.Input)
	}
	switch {
	case m.failed != nil || size <= limit:
	case a.isMap():
		m.failed = failureOf(resultsTooLarge("all elements", size, limit), nil)
	default:
		m.failed = failureOf(tooLarge(what, size, limit), nil)
	}
	if m.failed == nil && m.output.Activation != nil {
		if err := checkActivation(m.output.Activation, limit); err != nil {
			m.failed = failureOf(err, nil)
		}
	}
	cause := context.Cause(a.ctx)
	timedOut := timeoutName(cause)
	switch {
	case m.txEnded: // another attempt would repeat what it has committed
		return a.errored(m.failed, nil, "")
	case m.failed == nil && m.handBack == nil && timedOut == "" && m.output.Child != nil:
		a.countAttempt(outcomeSucceeded, "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_YIELDED, Child: a.childRun(m.output.Child)}
	case m.failed == nil && m.handBack == nil && timedOut == "" && m.output.Activation != nil && m.output.Payload == nil:
		a.countAttempt(outcomeSucceeded, "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_YIELDED, Activation: activation(m.output.Activation)}
	case m.failed == nil && m.handBack == nil && timedOut == "" && m.output.Map != nil:
		a.countAttempt(outcomeSucceeded, "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_YIELDED, Map: mapBegun(m.output.Map)}
	case m.failed == nil && m.handBack == nil && timedOut == "":
		a.countAttempt(outcomeSucceeded, "")
		return &messages.ReportOutcome{
			Kind: messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED, Output: m.output.Payload, Edges: edgeOutcomes(m.output.Edges),
			Activation: activation(m.output.Activation),
		}
	case timedOut == "attempt" && (errors.Is(m.handBack, persistence.ErrTxBroken) || a.databaseWasAway()):
		a.countAttempt(outcomeReleased, "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED}
	case m.handBack != nil && timedOut == "", errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost), errors.Is(cause, errNotBegun):
		a.countAttempt(outcomeReleased, "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED}
	}
	return a.errored(m.failed, cause, timedOut)
}

// childRun is the child run that an attempt begins.
func (a *run) childRun(c *persistence.Child) *messages.ChildRun {
	id, own := a.rt.newRunID(), a.key.task.Run
	if first := runOf(a.task.GetKeyRun()); !first.IsZero() {
		own = first
	}
	keys := persistence.ChildKeys(own, a.task.GetStepName())
	return &messages.ChildRun{
		Run: id[:], Definition: c.Definition[:], Workflow: c.Workflow, KeyRun: keys[:], Input: c.Input,
		Edges: edgeOutcomes(c.Edges), TraceContext: a.task.GetTraceContext(),
	}
}

func (a *run) errored(failed *failure, cause error, timedOut string) *messages.ReportOutcome {
	outcome := &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_ERRORED, TimedOut: timedOut}
	policy, attempt := a.function.Options.Retry, a.task.GetAttempt()
	switch {
	case timedOut != "":
		outcome.Class, outcome.Error = classTimedOut, cause.Error()
		outcome.Retry = lifecycle.MayRetry(policy, attempt, classTimedOut)
	case errors.Is(cause, ErrCanceled):
		outcome.Class, outcome.Error = classCanceled, failed.text
	default:
		outcome.Class, outcome.Error = failed.class, failed.text
		worth := failed.retry && lifecycle.WorthRetry(policy, failed.class)
		outcome.Retry = worth && lifecycle.MayRetry(policy, attempt, failed.class)
		outcome.Exhausted = worth && !outcome.GetRetry()
	}
	outcome.Error = lifecycle.CleanText(outcome.GetError())
	if outcome.GetRetry() {
		outcome.RetryIn = int64(lifecycle.RetryDelay(policy, attempt, a.rt.chance()))
		a.rt.recorder.add(MetricRetries, 1)
		a.logRetry(outcome)
	}
	a.countAttempt(outcomeOf(outcome), outcome.GetClass())
	return outcome
}

// The outcomes of attempts, as they are counted.
const (
	outcomeSucceeded = "succeeded"
	outcomeRetried   = "retried"
	outcomeFailed    = "failed"
	outcomeCanceled  = "canceled"
	outcomeReleased  = "released"
)

// outcomeOf tells errors apart by what follows from them, as far as the pod knows: the
// store makes no other attempt of a run that fails or is canceled meanwhile.
func outcomeOf(errored *messages.ReportOutcome) string {
	switch {
	case errored.GetRetry():
		return outcomeRetried
	case errored.GetClass() == classCanceled:
		return outcomeCanceled
	}
	return outcomeFailed
}

// countAttempt counts the end of an attempt.
func (a *run) countAttempt(outcome, class string) {
	if outcome == outcomeSucceeded {
		a.rt.recorder.add(MetricAttempts, 1, a.function.succeeded...)
		return
	}
	a.rt.recorder.add(MetricAttempts, 1, a.function.Workflow, a.function.Step, outcome, class)
}

func timeoutName(cause error) string {
	switch {
	case errors.Is(cause, ErrAttemptTimeout):
		return "attempt"
	case errors.Is(cause, ErrHeartbeatTimeout):
		return "heartbeat"
	}
	return ""
}

// attrs are the attributes of a log record about the attempt.
func (a *run) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{
		slog.String("run_id", a.key.task.Run.String()), slog.String("workflow", a.task.GetWorkflow()), slog.String("step", a.task.GetStepName()),
		slog.String("tenant", a.task.GetTenant()), slog.Int("attempt", int(a.task.GetAttempt())),
	}, more...)
}

// logPanic logs that the step function panicked: that is a mistake in it, also if another
// attempt succeeds.
func (a *run) logPanic(c *crash) {
	a.rt.log.LogAttrs(context.Background(), slog.LevelError, "step function panicked",
		a.attrs(slog.String("panic", short(c.value, logTextMax)), slog.String("frames", c.frames))...)
}

// logRetry logs an error after which the step is tried again.
func (a *run) logRetry(outcome *messages.ReportOutcome) {
	a.rt.log.LogAttrs(context.Background(), slog.LevelDebug, "attempt failed, the step is tried again",
		a.attrs(slog.String("class", outcome.GetClass()), slog.String("error", short(outcome.GetError(), logTextMax)),
			slog.Duration("retry_in", time.Duration(outcome.GetRetryIn())))...)
}

// logUnheard logs a failure for good that was recorded by a call whose answer was lost: the
// answer would have told it.
func (a *run) logUnheard(m *messages.OutcomeAnswered) {
	o := a.outcome
	if m.GetResult() != answerName(lifecycle.AlreadyYours) || o.GetKind() != messages.OutcomeKind_OUTCOME_KIND_ERRORED ||
		o.GetRetry() || o.GetClass() == classCanceled {
		return
	}
	a.rt.logFailed([]persistence.FailedTask{{
		Task: a.key.task, Workflow: a.task.GetWorkflow(), Step: a.task.GetStepName(), Tenant: a.task.GetTenant(),
		Attempt: a.task.GetAttempt(), Class: o.GetClass(), Error: o.GetError(),
	}})
}
