package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Classes of errors that the engine itself finds.
const (
	classPanic    = "panic"
	classTimedOut = "timed_out"
	classTooLarge = "too_large"
	classCanceled = "canceled"
)

// judge turns the end of an attempt into what is reported: a success counts
// whatever happened meanwhile; an error after the pod let go of the task is
// not the step's. It calls methods of the embedder's error, which may panic:
// that is a panic of the step.
func (a *run) judge(m *attemptEnded) (outcome *messages.ReportOutcome) {
	defer func() {
		if r := recover(); r != nil {
			outcome = &messages.ReportOutcome{
				Kind: messages.OutcomeKind_OUTCOME_KIND_ERRORED, Class: classPanic,
				Error: lifecycle.CleanText(fmt.Sprintf("panic while the error of type %T was looked at: %v", m.err, r)),
			}
			a.rt.meter.add(MetricAttempts, 1, "errored", classPanic)
		}
	}()
	if m.err == nil && len(m.output.Payload) > a.rt.config.PayloadLimit {
		m.err = tooLarge(len(m.output.Payload), a.rt.config.PayloadLimit)
	}
	cause := context.Cause(a.ctx)
	timedOut := timeoutName(cause)
	if m.err == nil && timedOut == "" {
		a.rt.meter.add(MetricAttempts, 1, "succeeded", "")
		return reportOf(&persistence.Transition{
			Report: lifecycle.Succeeded, Output: m.output.Payload, Edges: m.output.Edges,
		}, a.pool)
	}
	var record *recordError
	switch {
	case errors.As(m.err, &record), errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):
		a.rt.meter.add(MetricAttempts, 1, "released", "")
		return &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED}
	}
	return a.errored(m.err, cause, timedOut)
}

func (a *run) errored(err, cause error, timedOut string) *messages.ReportOutcome {
	outcome := &messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_ERRORED, TimedOut: timedOut}
	policy, attempt := a.function.Options.Retry, a.task.GetAttempt()
	var panicked *panicError
	switch {
	case timedOut != "":
		outcome.Class, err = classTimedOut, cause
		outcome.Retry = lifecycle.MayRetry(policy, attempt)
	case errors.Is(cause, ErrCanceled):
		outcome.Class = classCanceled
	case errors.As(err, &panicked), errors.Is(err, errGoexit):
		outcome.Class = classPanic
		outcome.Retry = lifecycle.MayRetry(policy, attempt)
	default:
		outcome.Class = ErrorClass(err)
		outcome.Retry = lifecycle.MayRetry(policy, attempt) && a.worthRetrying(err)
	}
	outcome.Error = lifecycle.CleanText(errorText(err))
	if outcome.GetRetry() {
		outcome.RetryIn = int64(lifecycle.RetryDelay(policy, attempt, a.rt.chance()))
		a.rt.meter.add(MetricRetries, 1)
	}
	a.rt.meter.add(MetricAttempts, 1, "errored", outcome.GetClass())
	return outcome
}

func (a *run) worthRetrying(err error) bool {
	if IsTerminal(err) {
		return false
	}
	return a.function.RetryIf == nil || a.function.RetryIf(err)
}

// errorText is the text of an error of the embedder's, whose Error method may
// panic.
func errorText(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("error of type %T, whose Error method panicked: %v", err, r)
		}
	}()
	if err == nil {
		return "attempt ended"
	}
	return err.Error()
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

func tooLarge(size, limit int) error {
	return Terminal(WithClass(classTooLarge, fmt.Errorf(
		"the output has %d bytes, the limit is %d: store it elsewhere and return a reference", size, limit)))
}

func needsLoading(task *messages.StartTask) bool {
	if task.GetLargeInput() {
		return true
	}
	for _, p := range task.GetParents() {
		if p.GetLarge() && p.GetOutput() == nil {
			return true
		}
	}
	return false
}

func inputsOf(task *messages.StartTask) Inputs {
	return Inputs{Input: task.GetInput(), Parents: outcomesOf(task.GetParents()), Failed: outcomesOf(task.GetFailed())}
}

// loadInputs reads the payloads that were too large for the grant.
func loadInputs(ctx context.Context, store persistence.Runs, task *messages.StartTask) (Inputs, error) {
	inputs := inputsOf(task)
	run := runOf(task.GetTask().GetRun())
	var err error
	if task.GetLargeInput() {
		if inputs.Input, err = store.Payload(ctx, workflow.TaskID{Run: run, Step: lifecycle.RunStep}); err != nil {
			return inputs, err
		}
	}
	for _, list := range [][]persistence.Outcome{inputs.Parents, inputs.Failed} {
		for i := range list {
			if o := &list[i]; o.Large && o.Output == nil {
				if o.Output, err = store.Payload(ctx, workflow.TaskID{Run: run, Step: o.Index}); err != nil {
					return inputs, err
				}
			}
		}
	}
	return inputs, nil
}
