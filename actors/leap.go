package actors

import "time"

// leap finds out whether the database's clock leaps forward, by that of this pod, of
// which it takes nothing but how much time passes. What an answer took on its way is
// never taken for a leap.
type leap struct {
	slack time.Duration // by so much it may go ahead between two looks

	clock time.Time // what it said last
	asked time.Time // before that, by ours; zero: it was not asked yet
	at    time.Time // when a leap was seen last
	farAt time.Time // when one was seen that may cost what is kept for its age
}

// farLeap is the least retention there is.
const farLeap = time.Minute

// saw notes what the clock said between two instants of ours, and returns by how much it
// has leapt at least.
func (l *leap) saw(clock, asked, answered time.Time) (by time.Duration) {
	if clock.IsZero() {
		return 0
	}
	if latest := l.latest(answered); !latest.IsZero() && clock.After(latest) {
		l.at, by = answered, clock.Sub(latest)+l.slack
		if by >= farLeap {
			l.farAt = answered
		}
	}
	l.clock, l.asked = clock, asked
	return by
}

// latest is what the clock shows at most at an instant of ours, if it has not leapt;
// zero: nobody knows.
func (l *leap) latest(now time.Time) time.Time {
	if l.asked.IsZero() {
		return time.Time{}
	}
	return l.clock.Add(now.Sub(l.asked) + l.slack)
}
