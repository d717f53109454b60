package vitals

import "time"

const (
	// ClockStepHold is how long after a large clock step nothing is removed for its age.
	// The clock may be set back meanwhile.
	ClockStepHold = time.Hour
	// LargeClockStep is the shortest retention that there is. A step is measured shorter
	// than it was.
	LargeClockStep = time.Minute
)

// ClockStep detects that the database's clock was stepped forward. Of the pod's clock it
// uses elapsed time only. The time that an answer took is never mistaken for a step.
type ClockStep struct {
	Drift time.Duration // how far the clock may run ahead between two observations
	At    time.Time     // last step, by the pod's clock; zero: none
	Large time.Time     // last time that recent steps added up to LargeClockStep; zero: never

	clock  time.Time // last observation
	asked  time.Time // when the pod asked for it; zero: no observation
	recent time.Duration
}

// Observe notes what the clock said between two instants of the pod, and returns the
// least size of a step. A slow answer is imprecise, so it is not used as a base.
func (c *ClockStep) Observe(clock, asked, answered time.Time) (step time.Duration) {
	if clock.IsZero() {
		return 0
	}
	if bound := c.UpperBound(answered); !bound.IsZero() && clock.After(bound) {
		step = clock.Sub(bound) + c.Drift
		if answered.Sub(c.At) >= ClockStepHold {
			c.recent = 0
		}
		c.At, c.recent = answered, c.recent+step
		if c.recent+c.Drift >= LargeClockStep {
			c.Large = answered
		}
	}
	if step > 0 || c.asked.IsZero() || answered.Sub(asked) <= c.Drift {
		c.clock, c.asked = clock, asked
	}
	return step
}

// UpperBound returns the highest database time plausible now; zero before the first
// observation.
func (c *ClockStep) UpperBound(now time.Time) time.Time {
	if c.asked.IsZero() {
		return time.Time{}
	}
	return c.clock.Add(now.Sub(c.asked) + c.Drift)
}
