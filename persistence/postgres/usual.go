package postgres

import "sync"

// usual says for which queues the statement for the usual case is worth a try: it
// is cheaper than the one for all cases, but where it meets another case, both are
// paid for. After that only the other is used for a while, and for longer the
// more often that happens in a row. It is safe for concurrent use.
type usual struct {
	mu     sync.Mutex
	queues map[int16]usualRest
}

// usualRest counts calls for one queue.
type usualRest struct {
	left int // that use the statement for all cases before the usual one is tried again
	last int // what left was after the last miss
}

const (
	usualRestMin = 30
	usualRestMax = 1000
)

func newUsual() *usual { return &usual{queues: map[int16]usualRest{}} }

// expected reports whether to try the usual case.
func (u *usual) expected(queue int16) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.queues[queue]
	if r.left == 0 {
		return true
	}
	r.left--
	u.queues[queue] = r
	return false
}

// met notes that it was the usual case.
func (u *usual) met(queue int16) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.queues, queue)
}

// missed notes that it was another case. Calls that were made at the same time miss the
// same thing.
func (u *usual) missed(queue int16) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.queues[queue].left > 0 {
		return
	}
	rest := min(max(2*u.queues[queue].last, usualRestMin), usualRestMax)
	u.queues[queue] = usualRest{left: rest, last: rest}
}
