package vitals

import (
	"errors"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// SlowBatch separates slow batches from fast ones. Twice as much still fits into a
// leader's term without answers, and is much less than the timeout of a call.
const SlowBatch = 5 * time.Second

// BatchLimit bounds the rows of a batch. A batch that failed slowly, or for lack of the
// server's resources, divides the limit by four. A full batch that was fast doubles it.
// The zero value has no limit.
type BatchLimit struct {
	limit int       // 0: none
	size  int       // of the batch under way
	begun time.Time // zero: no batch is under way
}

// Cap returns how many of the given rows the next batch may have.
func (l *BatchLimit) Cap(rows int) int {
	if l.limit > 0 {
		return min(rows, l.limit)
	}
	return rows
}

// Begin begins a batch of at most the given rows and returns its size. A batch that did
// not end, because its actor restarted, counts as failed.
func (l *BatchLimit) Begin(rows int, now time.Time) int {
	l.Ended(0, now, persistence.ErrUnavailable)
	l.size, l.begun = l.Cap(rows), now
	return l.size
}

// Ended notes the end of the batch under way, and how many rows it had.
func (l *BatchLimit) Ended(rows int, now time.Time, err error) {
	if l.begun.IsZero() {
		return
	}
	switch slow := now.Sub(l.begun) >= SlowBatch; {
	case err != nil && (slow || errors.Is(err, persistence.ErrNoResources)):
		l.limit = max(l.size/4, 1)
	case err == nil && !slow && l.limit > 0 && rows >= l.limit:
		l.limit *= 2
	}
	l.begun = time.Time{}
}
