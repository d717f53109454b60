package postgres

import (
	"context"
	"log/slog"
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
type strained struct {
	log  *slog.Logger              // nil: nothing is logged
	at   atomic.Pointer[time.Time] // with the monotonic clock
	left atomic.Pointer[time.Time] // when a completion was left out last
	told atomic.Pointer[time.Time]

	holders holders
}

// strainedTold is how often the log says so at most.
const strainedTold = time.Minute

func (s *strained) note(ctx context.Context) {
	now := clock.System{}.Now()
	s.at.Store(&now)
	if told := s.told.Load(); s.log == nil || told != nil && now.Sub(*told) < strainedTold || !s.told.CompareAndSwap(told, &now) {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "a lock was not granted in time: what somebody holds is gone around, and waits alone; troupe explain of a run that waits names who")
}

// is reports whether that is not long ago.
func (s *strained) is() bool {
	at := s.at.Load()
	return at != nil && clock.System{}.Now().Sub(*at) < strainedFor
}

// leftOut notes that a completion was left out because of what somebody holds.
func (s *strained) leftOut() {
	now := clock.System{}.Now()
	s.left.Store(&now)
}

// around reports whether claims go around what somebody holds: what they took of that
// would wait with its outcome.
func (s *strained) around() bool {
	left := s.left.Load()
	return s.is() || left != nil && clock.System{}.Now().Sub(*left) < strainedFor
}

// mode is what to do about locks that somebody holds.
func (s *strained) mode() locking {
	if s.is() {
		return lockCalm
	}
	return lockWaiting
}
