package postgres

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// orphansKept is for how long the timers of runs that somebody removed are kept:
// who removed them by mistake may put them back, and restores load one table after
// the other.
const orphansKept = time.Hour

// orphans is since when there are timers whose runs are not there. It is safe for
// concurrent use.
type orphans struct {
	mu    sync.Mutex
	since time.Time // with the monotonic clock; zero: there are none
}

// over returns those of some timers without runs that may go, at an instant of the
// database. oldest: they are of those that have been due for longest; none of them
// without a run, there are none.
func (o *orphans) over(list []timer, oldest bool, now time.Time) (gone []timer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch here := (clock.System{}).Now(); {
	case len(list) > 0 && o.since.IsZero():
		o.since = here
	case len(list) == 0 && oldest:
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
