package actors

import "time"

// leap finds out whether the database's clock leaps forward, by that of this pod, of
// which it takes nothing but how much time passes. What an answer took on its way is
// never taken for a leap.
type leap struct {
	slack time.Duration // by so much it may go ahead between two looks

	clock time.Time     // what it said last
	asked time.Time     // before that, by ours; zero: it was not asked yet
	at    time.Time     // when a leap was seen last
	sum   time.Duration // of leaps between which there was less than leapHold
	farAt time.Time     // when they came to what may cost what is kept for its age, last
}

// farLeap is the least retention there is. A leap is seen shorter than it was.
const farLeap = time.Minute

// saw notes what the clock said between two instants of ours, and returns by how much it
// has leapt at least. An answer that took long says little, and is not gone by later.
func (l *leap) saw(clock, asked, answered time.Time) (by time.Duration) {
	if clock.IsZero() {
		return 0
	}
	if latest := l.latest(answered); !latest.IsZero() && clock.After(latest) {
		by = clock.Sub(latest) + l.slack
		if answered.Sub(l.at) >= leapHold {
			l.sum = 0
		}
		l.at, l.sum = answered, l.sum+by
		if l.sum+l.slack >= farLeap {
			l.farAt = answered
		}
	}
	if by > 0 || l.asked.IsZero() || answered.Sub(asked) <= l.slack {
		l.clock, l.asked = clock, asked
	}
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
