package actors

import (
	"context"
	"errors"

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
	if m.failed == nil && len(m.output.Payload) > a.rt.config.PayloadLimit {
		m.failed = failureOf(tooLarge("output", len(m.output.Payload), a.rt.config.PayloadLimit), nil)
	}
	cause := context.Cause(a.ctx)
	timedOut := timeoutName(cause)
	switch {
	case m.txEnded: // another attempt would repeat what it has committed
		return a.errored(m.failed, nil, "")
	case m.failed == nil && m.handBack == nil && timedOut == "":
		a.rt.recorder.add(MetricAttempts, 1, "succeeded", "")
		return &messages.ReportOutcome{
			Kind: messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED, Output: m.output.Payload, Edges: edgeOutcomes(m.output.Edges),
		}
	case timedOut == "attempt" && (errors.Is(m.handBack, persistence.ErrTxBroken) || a.databaseWasAway()):
		a.rt.recorder.add(MetricAttempts, 1, "released", "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED}
	case m.handBack != nil && timedOut == "", errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost), errors.Is(cause, errNotBegun):
		a.rt.recorder.add(MetricAttempts, 1, "released", "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED}
	}
	return a.errored(m.failed, cause, timedOut)
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
	}
	a.rt.recorder.add(MetricAttempts, 1, "errored", outcome.GetClass())
	return outcome
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
