package actors

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// reach is whether the database answers what a pod asks it through its pool:
// claims, records, triggers, and all the work of a leader. The lease and the
// leader's session have connections of their own, which may go another way and
// say nothing about it. It is safe for concurrent use.
type reach struct {
	mu    sync.Mutex
	open  map[int64]time.Time // calls under way, by number, with their beginning
	since time.Time           // since when nothing was answered that was asked; zero: nothing waits for an answer
	last  time.Time           // when something was last answered
	quiet time.Time           // when the last silence ended that was long enough to doubt; zero: there was none
}

func newReach(now time.Time) *reach { return &reach{open: map[int64]time.Time{}, last: now} }

// asked notes the beginning of a call.
func (r *reach) asked(number int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[number] = now
	if r.since.IsZero() {
		r.since = now
	}
}

// ended notes the end of a call, once. One that failed without an answer of the
// database's is made again, so the silence goes on.
func (r *reach) ended(number int64, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.open[number]; !is {
		return
	}
	delete(r.open, number)
	if !persistence.Answered(err) {
		return
	}
	if !r.since.IsZero() && now.Sub(r.since) >= excuse {
		r.quiet = now
	}
	r.last, r.since = now, time.Time{}
	if len(r.open) > 0 {
		r.since = now
	}
}

// silence is for how long nothing has been answered that was asked.
func (r *reach) silence(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return 0
	}
	return now.Sub(r.since)
}

// oldest is for how long the oldest call has not been answered; 0: there is none.
func (r *reach) oldest(now time.Time) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, begun := range r.open {
		longest = max(longest, now.Sub(begun))
	}
	return longest
}

// excuse is how long the database must have been silent for a step that waited for
// it to be excused.
const excuse = time.Second

// wasSilent reports whether the database was silent for a while at some time since
// then.
func (r *reach) wasSilent(since, now time.Time) bool {
	if r.silence(now) >= excuse {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet.After(since)
}

// quietUntil is when the database was last silent for a while; zero: never.
func (r *reach) quietUntil() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

// answered is when something was last answered.
func (r *reach) answered() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// stall is for how long the work of one of the leader's actors has not been
// answered: others of the pod may be, whose answers are shorter. It is safe for
// concurrent use.
type stall struct {
	mu    sync.Mutex
	since time.Time // zero: nothing waits for an answer
}

func (s *stall) asked(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
}

// ended notes the end of a call; any answer will do, since others would be told
// the same.
func (s *stall) ended(err error) {
	if persistence.Answered(err) {
		s.reset()
	}
}

func (s *stall) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}

func (s *stall) silence(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return now.Sub(s.since)
}
