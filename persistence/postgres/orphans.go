package postgres

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

const (
	// orphansKept is for how long the timers of runs that somebody removed are kept:
	// who removed them by mistake may put them back, and restores load one table
	// after the other. The statements know it, too.
	orphansKept = time.Hour
	// orphansSeen is how often all of them are looked at meanwhile.
	orphansSeen = time.Minute
)

// orphans is since when there are timers whose runs are not there. It is safe for
// concurrent use.
type orphans struct {
	mu    sync.Mutex
	since time.Time // with the monotonic clock; zero: there are none
	seen  time.Time // when all were looked at
}

// sight is which timers are looked at.
type sight struct {
	living bool // those whose runs are there
	old    bool // and those of others that were due for orphansKept
}

// sight returns what to look at now. What is not there does not stand in the way of
// others, but for one look a minute.
func (o *orphans) sight() sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := clock.System{}.Now()
	if o.since.IsZero() {
		return sight{}
	}
	if now.Sub(o.seen) >= orphansSeen {
		o.seen = now
		return sight{}
	}
	return sight{living: true, old: now.Sub(o.since) >= orphansKept}
}

// over returns those of some timers without runs that may go, at an instant of the
// database. all: nothing else was due.
func (o *orphans) over(list []timer, all bool, now time.Time) (gone []timer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch here := (clock.System{}).Now(); {
	case len(list) > 0 && o.since.IsZero():
		o.since, o.seen = here, here
	case len(list) == 0 && all:
		o.since = time.Time{}
	case here.Sub(o.since) >= orphansKept:
		for _, t := range list {
			if now.Sub(t.wakeAt) >= orphansKept {
				gone = append(gone, t)
			}
		}
	}
	return gone
}
