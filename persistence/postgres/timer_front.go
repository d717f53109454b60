package postgres

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// What is due is looked at from the first timer on, a part at a time: mostly that is all
// there is. Behind it may stand any number of timers that cannot fire, because somebody
// removed their runs, or the entries of many that were moved away while somebody's
// snapshot keeps them. So there is a front as well, behind which everything was looked
// at: what is due from there on is found by walking past far more, which is cheap where
// nothing is written.

const (
	// wholePart is how many timers are walked past in a part of a look at all that is
	// due, and parkPart how many are parked then. Others wait for that.
	wholePart, parkPart = 1500, 5000
	// frontPart is how many are walked past from the front on, and behind it.
	frontPart = 50_000
	// frontFresh is how far behind the present the front stays: a transaction may be
	// under way that sets a timer which is due by then.
	frontFresh = time.Second
	// behindShare is how many times as long as it took what the front has passed is not
	// looked at again, for timers that somebody held or that were set late, and
	// behindRest how long at least.
	behindShare = 1
	behindRest  = time.Second
	// wholeSlow is what a part may take without a pause after it, which is so many
	// times as long, less if it got anywhere, and at most wholeRest.
	wholeSlow                   = 50 * time.Millisecond
	wholeShare, wholeShareMoved = 20, 3
	wholeRest                   = time.Minute
	// wholeStuck is the least pause after a part in which nothing could be moved.
	wholeStuck = 250 * time.Millisecond
)

// timerFront is where a leader's looks for due timers begin. It is safe for concurrent
// use.
type timerFront struct {
	mu    sync.Mutex
	epoch int64
	front time.Time // what is older was looked at
	back  time.Time // where the next part of a look at all begins; zero: at the first timer
	rest  time.Time // until then there is none
	crowd bool      // what cannot fire was more than a part, and may still cost its time

	behind      time.Time // where the look behind the front goes on; zero: at the first timer
	behindBegun time.Time
	behindNext  time.Time // until then there is none
}

// timerLook is what one call looks at.
type timerLook struct {
	whole       bool // a part of all that is due, from back on
	back, front time.Time
}

// from is when the first timer is due that is looked at.
func (l timerLook) from() time.Time {
	if l.whole {
		return l.back
	}
	return l.front
}

func (f *timerFront) look(epoch int64) timerLook {
	f.mu.Lock()
	defer f.mu.Unlock()
	if epoch != f.epoch {
		f.epoch, f.front, f.back, f.rest, f.crowd = epoch, time.Time{}, time.Time{}, time.Time{}, false
		f.behind, f.behindBegun, f.behindNext = time.Time{}, time.Time{}, time.Time{}
	}
	return timerLook{whole: !clock.System{}.Now().Before(f.rest), back: f.back, front: f.front}
}

// advance moves the front: all up to an instant was looked at, by the database's clock.
// full: there is more.
func (f *timerFront) advance(to, now time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !full {
		to = now.Add(-frontFresh)
	}
	if to.After(f.front) {
		f.front = to
	}
	if f.front.After(now) { // it was set back
		f.front = now.Add(-frontFresh)
	}
}

// lookBehind reports whether it is time for a part of a look behind the front, and where
// it begins.
func (f *timerFront) lookBehind() (from time.Time, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.behindIsDue() {
		return time.Time{}, false
	}
	if f.behind.IsZero() {
		f.behindBegun = clock.System{}.Now()
	}
	return f.behind, true
}

// isBehindDue reports whether it is time for a part of a look behind the front.
func (f *timerFront) isBehindDue() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behindIsDue()
}

func (f *timerFront) behindIsDue() bool { return f.crowd && !clock.System{}.Now().Before(f.behindNext) }

// failed notes that a look at all, or a part of it, came to nothing after so long: what
// is due from the front on has its turn first.
func (f *timerFront) failed(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crowd {
		f.rest = clock.System{}.Now().Add(min(wholeShare*took, wholeRest))
	}
}

// next is the time until something is to be looked at that is due already, if it is
// crowded.
func (f *timerFront) next() (d time.Duration, crowd bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := clock.System{}.Now()
	return max(min(f.rest.Sub(now), f.behindNext.Sub(now)), time.Millisecond), f.crowd
}

// lookedBehind notes where a part of that look ended. It reports whether there is another.
func (f *timerFront) lookedBehind(end time.Time, full bool) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more = full && end.Before(f.front); more {
		f.behind = end
		return true
	}
	now := clock.System{}.Now()
	f.behind, f.behindNext = time.Time{}, now.Add(min(max(behindShare*now.Sub(f.behindBegun), behindRest), wholeRest))
	return false
}

// part is what a part of a look at all came to.
type part struct {
	first bool      // it began with the first timer
	crowd bool      // others hide behind what cannot fire
	end   time.Time // where the next one begins then
	moved bool      // some are gone now
	took  time.Duration
}

// parted notes a part of a look at all. Only a crowd makes it pause: whatever else takes
// long, as a server that stands still, says nothing about the next one. A crowd has gone
// when a part that began with the first timer took little: somebody's snapshot may keep
// the entries of those that are parked.
func (f *timerFront) parted(p part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = time.Time{}
	if p.crowd {
		f.back = p.end
	}
	if f.crowd = p.crowd || f.crowd && (p.took >= wholeSlow || !p.first); !f.crowd {
		f.rest = time.Time{}
		return
	}
	pause := time.Duration(0)
	switch {
	case p.took < wholeSlow:
	case p.moved:
		pause = wholeShareMoved * p.took
	default:
		pause = wholeShare * p.took
	}
	if p.crowd && !p.moved {
		pause = max(pause, wholeStuck)
	}
	f.rest = clock.System{}.Now().Add(min(pause, wholeRest))
}

// pause is the time until the next part of a look at all; zero: there is none to wait for.
func (f *timerFront) pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.rest.Sub(clock.System{}.Now()), 0)
}
