package actors

import (
	"sync"
	"time"
)

// pace bounds the batches of a call by how long they take. A server that is slow for each
// row, as with somebody's trigger on a table, would else be given a batch again and again
// that it cannot end in time. It is safe for concurrent use.
type pace struct {
	mu    sync.Mutex
	most  int       // rows of a batch; 0: as many as fit
	size  int       // of the batch under way, or of one that was given up with its actor
	begun time.Time // zero: none is
}

const (
	// paceLong is how long a batch may take before the next one is smaller: much less than
	// what ends calls (storeTimeout), and a leader's term (leadAwayMax).
	paceLong = 5 * time.Second
	// paceQuick is how soon a batch has to end for the next one to be larger.
	paceQuick = paceLong / 8
)

// begin begins a batch of so many rows at most, and returns of how many.
func (p *pace) begin(rows int, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(0, now)
	if p.most > 0 {
		rows = min(rows, p.most)
	}
	p.size, p.begun = rows, now
	return rows
}

// ended notes the end of a batch, and how many rows it had; 0: it failed.
func (p *pace) ended(rows int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(rows, now)
}

func (p *pace) end(rows int, now time.Time) {
	if p.begun.IsZero() {
		return
	}
	switch took := now.Sub(p.begun); {
	case took >= paceLong:
		p.most = max(p.size/4, 1)
	case took < paceQuick && p.most > 0 && rows >= p.most:
		p.most *= 2
	}
	p.begun = time.Time{}
}
