package adaptive

import "sync"

// FastPath says for which queues the statement for the usual case is worth a try: it
// is cheaper than the one for all cases, but where it meets another case, both are
// paid for. After that only the other is used for a while, and for longer the
// more often that happens in a row. It is safe for concurrent use.
type FastPath struct {
	mu     sync.Mutex
	queues map[int16]fastPathRest
}

// fastPathRest counts calls for one queue.
type fastPathRest struct {
	left int // that use the statement for all cases before the usual one is tried again
	last int // what left was after the last miss
}

const (
	// ShortcutRestMin is after how many calls the usual case is tried again at first.
	ShortcutRestMin = 30
	// ShortcutRestMax is after how many it is tried again at the latest.
	ShortcutRestMax = 1000
)

// NewFastPath returns one that tries the usual case everywhere.
func NewFastPath() *FastPath { return &FastPath{queues: map[int16]fastPathRest{}} }

// WorthTrying reports whether to try the usual case.
func (s *FastPath) WorthTrying(queue int16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.queues[queue]
	if r.left == 0 {
		return true
	}
	r.left--
	s.queues[queue] = r
	return false
}

// Hit notes that it was the usual case.
func (s *FastPath) Hit(queue int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, queue)
}

// Missed notes that it was another case. Calls that were made at the same time miss the
// same thing.
func (s *FastPath) Missed(queue int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[queue].left > 0 {
		return
	}
	rest := min(max(2*s.queues[queue].last, ShortcutRestMin), ShortcutRestMax)
	s.queues[queue] = fastPathRest{left: rest, last: rest}
}
