package adaptive

import (
	"sync"
	"time"
)

// EmptyBelow knows the place below which a queue is empty, for queues that children and first
// tasks are granted past (lifecycle.MayInline, lifecycle.Take). Dead rows of granted tasks
// lie below it. While a session keeps an old snapshot they are not removed, and a scan from
// the start of the queue reads all of them. New places are above the frontier; a place that
// was committed late may be below it, and is found by the next full scan. It is safe for
// concurrent use.
type EmptyBelow struct {
	mu     sync.Mutex
	Queues map[int16]Head
}

// Head is what is known of one queue.
type Head struct {
	After int64     // the queue is empty below it
	Until time.Time // for how long that is relied on, by the database's clock
}

// Looked is what a record saw of the queues that it looked at.
type Looked struct {
	Queues []int16
	After  []int64
	Until  []time.Time
}

// NewEmptyBelow returns one that knows no queue.
func NewEmptyBelow() *EmptyBelow { return &EmptyBelow{Queues: map[int16]Head{}} }

// Known returns what is known of each queue. A queue that was never looked at
// is relied on no longer.
func (h *EmptyBelow) Known(queues []int16) (after []int64, until []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	after, until = make([]int64, len(queues)), make([]time.Time, len(queues))
	for i, number := range queues {
		after[i], until[i] = h.Queues[number].After, h.Queues[number].Until
	}
	return after, until
}

// Note learns from a record that was committed.
func (h *EmptyBelow) Note(l Looked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, number := range l.Queues {
		h.Queues[number] = Head{After: l.After[i], Until: l.Until[i]}
	}
}
