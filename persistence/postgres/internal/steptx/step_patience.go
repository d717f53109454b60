package steptx

import (
	"sync/atomic"
	"time"
)

// borrowMax is how long a step waits for a connection of the user's pool, and
// then for its transaction to begin; borrowAgain, if the last one that did got none.
const (
	borrowMax   = 10 * time.Second
	borrowAgain = 500 * time.Millisecond
)

// poolPatience is how long steps wait for the user's pool. After one got nothing, one
// at a time waits as long as ever, because the pool may be slow and not empty; those
// beside it leave soon. It is safe for concurrent use.
type poolPatience struct {
	Most    time.Duration
	Nothing atomic.Bool // the last step that waited got nothing
	Asking  atomic.Bool // one waits as long as ever since
}

// PoolWait is the wait of one step, which one goroutine waits for.
type PoolWait struct {
	of    *poolPatience
	limit time.Duration
	asks  bool // it is the one that waits as long as ever
}

// Wait begins a wait, which has to end.
func (p *poolPatience) Wait() *PoolWait {
	w := &PoolWait{of: p, limit: p.Most}
	if p.Nothing.Load() {
		if w.asks = p.Asking.CompareAndSwap(false, true); !w.asks {
			w.limit = min(p.Most, borrowAgain)
		}
	}
	return w
}

// Got ends a wait for a transaction that has begun.
func (w *PoolWait) Got() {
	w.of.Nothing.Store(false)
	w.End()
}

// GaveUp notes that there was nothing in time.
func (w *PoolWait) GaveUp() { w.of.Nothing.Store(true) }

// End ends a wait, however it went. It may be called again.
func (w *PoolWait) End() {
	if w.asks {
		w.asks = false
		w.of.Asking.Store(false)
	}
}
