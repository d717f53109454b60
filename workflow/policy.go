package workflow

import (
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	// DurationMax is the longest sleep, timeout or delay: 100 years. Beyond it
	// a duration is a slip, and arithmetic with instants would overflow.
	DurationMax = 876_600 * time.Hour
	// AttemptsMax bounds the attempts of a step: one that failed this often
	// does not succeed by being tried again.
	AttemptsMax = 1_000_000
	// FactorMax bounds the growth of a retry's delay: beyond it the second
	// delay is the cap.
	FactorMax = 1_000
)

// CheckRetry says everything that is wrong with a retry policy, or returns
// nil.
func CheckRetry(policy RetryPolicy) error {
	var r report
	r.retry("", policy)
	return r.err()
}

func (r *report) retry(step string, p RetryPolicy) {
	if p.Attempts < 0 || p.Attempts > AttemptsMax {
		r.check(step, "retry.attempts", fmt.Sprintf("%d attempts", p.Attempts),
			fmt.Sprintf("use 1 to %d; they include the first", AttemptsMax))
	}
	r.duration(step, "retry.first", p.First)
	r.duration(step, "retry.cap", p.Cap)
	if p.First > 0 && p.Cap > 0 && p.First > p.Cap {
		r.check(step, "retry.first", fmt.Sprintf("%v is longer than the cap of %v", p.First, p.Cap), "raise the cap")
	}
	// Written so that NaN, which compares with nothing, is refused.
	if p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= FactorMax) {
		r.check(step, "retry.factor", fmt.Sprintf("%v is not from 1 to %d", p.Factor, FactorMax),
			"use 1 for a constant delay, 2 to double it each time")
	}
	if !(p.Jitter <= 1) {
		r.check(step, "retry.jitter", fmt.Sprintf("%v is over 1", p.Jitter),
			"use a fraction such as 0.1, or a negative number for none")
	}
	for i, class := range p.Never {
		field := fmt.Sprintf("retry.never[%d]", i)
		switch {
		case class == "":
			r.check(step, field, "the class is empty", "name a class, as troupe.Class gives it to an error")
		case class == "lost":
			r.check(step, field, "lost attempts are none of the policy's", "set Config.MaxLost to 1")
		case len(class) > NameMax || !utf8.ValidString(class):
			r.check(step, field, fmt.Sprintf("%.40q names no class", class), fmt.Sprintf("use at most %d bytes of UTF-8", NameMax))
		}
	}
}

// duration judges one that may be zero.
func (r *report) duration(step, field string, d time.Duration) {
	switch {
	case d < 0:
		r.check(step, field, fmt.Sprintf("%v is negative", d), "use a positive duration, or zero for the default")
	case d > DurationMax:
		r.check(step, field, fmt.Sprintf("%v is over 100 years", d), "use a shorter duration")
	}
}

func (r *report) options(s *Step) {
	o := s.Options
	if o.Queue != "" {
		text, remedy := judgeName(o.Queue)
		r.check(s.Name, "queue", text, remedy)
	}
	r.retry(s.Name, o.Retry)
	r.duration(s.Name, "attempt_timeout", o.AttemptTimeout)
	r.duration(s.Name, "heartbeat_timeout", o.HeartbeatLimit)
	r.duration(s.Name, "schedule_to_start_timeout", o.ScheduleToStart)
}
