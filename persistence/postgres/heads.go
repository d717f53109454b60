package postgres

import (
	"sync"
	"time"
)

// heads knows the place below which a queue is empty, for queues that children and first
// tasks are granted past (lifecycle.MayInline, lifecycle.Take). Dead rows of granted tasks
// lie below it. While a session keeps an old snapshot they are not removed, and a scan from
// the start of the queue reads all of them. New places are above the frontier; a place that
// was committed late may be below it, and is found by the next full scan. It is safe for
// concurrent use.
type heads struct {
	mu     sync.Mutex
	queues map[int16]head
}

// head is what is known of one queue.
type head struct {
	after int64     // the queue is empty below it
	until time.Time // for how long that is relied on, by the database's clock
}

// looked is what a record saw of the queues that it looked at.
type looked struct {
	queues []int16
	after  []int64
	until  []time.Time
}

// newHeads returns one that knows no queue.
func newHeads() *heads { return &heads{queues: map[int16]head{}} }

// known returns what is known of each queue. A queue that was never looked at
// is relied on no longer.
func (h *heads) known(queues []int16) (after []int64, until []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	after, until = make([]int64, len(queues)), make([]time.Time, len(queues))
	for i, number := range queues {
		after[i], until[i] = h.queues[number].after, h.queues[number].until
	}
	return after, until
}

// note learns from a record that was committed.
func (h *heads) note(l looked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, number := range l.queues {
		h.queues[number] = head{after: l.after[i], until: l.until[i]}
	}
}
