package postgres

import (
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// strainedFor is for how long, after a lock was not granted in time, nobody waits
// for locks again: who holds one for that long may hold it for longer, and each
// wait for it holds up everybody whose turn is beside it. After it somebody has to
// wait in vain again, so that what is merely busy is not left out for long.
const strainedFor = 5 * time.Second

// strained is when a lock was last not granted in time. It is safe for concurrent
// use.
type strained struct{ at atomic.Pointer[time.Time] } // with the monotonic clock

func (s *strained) note() {
	now := clock.System{}.Now()
	s.at.Store(&now)
}

// is reports whether that is not long ago.
func (s *strained) is() bool {
	at := s.at.Load()
	return at != nil && clock.System{}.Now().Sub(*at) < strainedFor
}

// mode is what to do about locks that somebody holds.
func (s *strained) mode() locking {
	if s.is() {
		return lockCalm
	}
	return lockWaiting
}
