package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// pace bounds the batches of a call by how long they take. A server that is slow for each
// row, as with somebody's trigger on a table, or that has no room for what a batch needs,
// would else be given a batch again and again that it cannot end. It is safe for concurrent use.
type pace struct {
	mu    sync.Mutex
	most  int       // rows of a batch; 0: as many as fit
	size  int       // of the batch under way, or of one that was given up with its actor
	begun time.Time // zero: none is
}

// paceLong is how long a batch may take in vain before the next one is smaller, and within
// how long it has to be done for the next one to be larger. Twice as much is still within
// what ends a leader's term (leadAwayMax), and much less than what ends calls (storeTimeout).
const paceLong = 5 * time.Second

// begin begins a batch of so many rows at most, and returns of how many. One that was given
// up with its actor has failed, unless that is longer ago than any call takes.
func (p *pace) begin(rows int, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begun) < storeTimeout+paceLong {
		p.end(0, context.DeadlineExceeded, now)
	}
	if p.most > 0 {
		rows = min(rows, p.most)
	}
	p.size, p.begun = rows, now
	return rows
}

// limit returns of how many rows the next batch is, of so many at most.
func (p *pace) limit(rows int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most > 0 {
		return min(rows, p.most)
	}
	return rows
}

// ended notes the end of a batch, and how many rows it had.
func (p *pace) ended(rows int, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(rows, err, now)
}

func (p *pace) end(rows int, err error, now time.Time) {
	if p.begun.IsZero() {
		return
	}
	switch long := now.Sub(p.begun) >= paceLong; {
	case err != nil && (long || errors.Is(err, persistence.ErrNoResources)):
		p.most = max(p.size/4, 1)
	case err == nil && !long && p.most > 0 && rows >= p.most:
		p.most *= 2
	}
	p.begun = time.Time{}
}
