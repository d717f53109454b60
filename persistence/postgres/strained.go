package postgres

import (
	"sync/atomic"
	"time"
)

// strainedFor is for how long, after a lock was not granted in time, nobody waits
// for locks again: who holds one for that long holds it for longer, and each wait
// for it holds up everybody whose turn is beside it.
const strainedFor = 5 * time.Second

// strained is when a lock was last not granted in time. It is safe for concurrent
// use.
type strained struct{ at atomic.Int64 }

func (s *strained) note() { s.at.Store(time.Now().UnixNano()) }

// is reports whether that is not long ago.
func (s *strained) is() bool { return time.Since(time.Unix(0, s.at.Load())) < strainedFor }

// mode is what to do about locks that somebody holds.
func (s *strained) mode() locking {
	if s.is() {
		return lockCalm
	}
	return lockWaiting
}
