package lifecycle

import (
	"errors"
	"time"
)

// Directive is what a supervisor does with a failed child.
type Directive uint8

// The directives.
const (
	_        Directive = iota
	Restart            // replace the child after Delay, keep its mailbox
	Stop               // give the child up
	Escalate           // the failure is the parent's
)

// RestartIntensity allows Max restarts within Period; one more escalates. The
// n-th restart within Period waits First × 2ⁿ⁻², the first none, at most Cap.
type RestartIntensity struct {
	Max    int
	Period time.Duration
	First  time.Duration
	Cap    time.Duration
}

// ErrStopChild is the reason of a child that asks not to be restarted.
var ErrStopChild = errors.New("lifecycle: stop child")

// RestartDecision is what DecideRestart decided.
type RestartDecision struct {
	Directive Directive
	Delay     time.Duration // Restart: how long to wait before it
	Kept      []time.Time   // failures to pass in next time
}

// DecideRestart says what to do with a child that failed at now for reason,
// after the failures in past.
func DecideRestart(limit RestartIntensity, past []time.Time, now time.Time, reason any) RestartDecision {
	if err, ok := reason.(error); ok && errors.Is(err, ErrStopChild) {
		return RestartDecision{Directive: Stop}
	}
	kept := make([]time.Time, 0, len(past)+1)
	for _, at := range past {
		if now.Sub(at) < limit.Period {
			kept = append(kept, at)
		}
	}
	kept = append(kept, now)
	if len(kept) > limit.Max {
		return RestartDecision{Directive: Escalate}
	}
	return RestartDecision{Directive: Restart, Delay: restartDelay(limit, len(kept)), Kept: kept}
}

func restartDelay(limit RestartIntensity, nth int) time.Duration {
	if nth <= 1 {
		return 0
	}
	delay := limit.First
	for range nth - 2 {
		if delay >= limit.Cap {
			break
		}
		delay *= 2
	}
	return min(delay, limit.Cap)
}
