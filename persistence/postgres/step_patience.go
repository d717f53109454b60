package postgres

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
	most    time.Duration
	nothing atomic.Bool // the last step that waited got nothing
	asking  atomic.Bool // one waits as long as ever since
}

// poolWait is the wait of one step, which one goroutine waits for.
type poolWait struct {
	of    *poolPatience
	limit time.Duration
	asks  bool // it is the one that waits as long as ever
}

// wait begins a wait, which has to end.
func (p *poolPatience) wait() *poolWait {
	w := &poolWait{of: p, limit: p.most}
	if p.nothing.Load() {
		if w.asks = p.asking.CompareAndSwap(false, true); !w.asks {
			w.limit = min(p.most, borrowAgain)
		}
	}
	return w
}

// got ends a wait for a transaction that has begun.
func (w *poolWait) got() {
	w.of.nothing.Store(false)
	w.end()
}

// gaveUp notes that there was nothing in time.
func (w *poolWait) gaveUp() { w.of.nothing.Store(true) }

// end ends a wait, however it went. It may be called again.
func (w *poolWait) end() {
	if w.asks {
		w.asks = false
		w.of.asking.Store(false)
	}
}
