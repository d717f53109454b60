package troupe

import (
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// given reports whether any field is set.
func (r *Retry) given() bool {
	return r.Attempts != 0 || r.First != 0 || r.Factor != 0 || r.Cap != 0 || r.Jitter != 0 || r.If != nil || len(r.Never) > 0
}

// heldFor returns what is to hold for the new run as it is stored, or a [*TriggerError] that
// names a field and its remedy.
func (o *RequeueOptions) heldFor() (string, error) {
	wrong := func(field, remedy string) (string, error) {
		return "", &TriggerError{Code: BadInput, Field: field, Remedy: remedy}
	}
	var out persistence.RunOptions
	switch limit := o.AttemptTimeout; {
	case limit < 0:
		return wrong("attempt_timeout", fmt.Sprintf("%v is negative: use a positive duration, or zero for what the program says", limit))
	case limit > durationMax:
		return wrong("attempt_timeout", fmt.Sprintf("%v is over 100 years: use a shorter duration", limit))
	}
	out.AttemptTimeout = o.AttemptTimeout
	if !o.Retry.given() {
		return out.Encode(), nil
	}
	switch policy := o.Retry.policy(); {
	case o.Retry.If != nil:
		return wrong("retry.if", "a function is not stored: leave it out, or name classes in Never")
	case policy.Attempts == 0:
		return wrong("retry.attempts", "0 attempts: say how many in all, as in Retry{Attempts: 3}")
	case len(policy.Never) > neverMax:
		return wrong("retry.never", fmt.Sprintf("%d classes: use at most %d", len(policy.Never), neverMax))
	default:
		if problems := workflow.Problems(workflow.CheckRetry(policy)); len(problems) > 0 {
			return wrong(problems[0].Field, problems[0].Text+": "+problems[0].Remedy)
		}
		out.Retry = &policy
	}
	return out.Encode(), nil
}

// neverMax bounds the classes of a requeue: each grant of the new run carries them.
const neverMax = 20
