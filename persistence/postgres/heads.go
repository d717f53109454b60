package postgres

import (
	"sync"
	"time"
)

// heads knows below which place no task stands in the queues that children and
// first tasks are granted past (lifecycle.MayInline, lifecycle.Take). Rows that were taken lie there, and while
// an old snapshot is open they are not removed: a look from the
// start of the queue reads all of them. New places are behind the
// frontier; what was committed late may stand before it, and is seen by the next
// look at everything. It is safe for concurrent use.
type heads struct {
	mu     sync.Mutex
	queues map[int16]head
}

type head struct {
	after int64     // no task stands below it
	until time.Time // for how long that is relied on, by the database's clock
}

// looked is what a record saw of the queues that it looked at.
type looked struct {
	queues []int16
	after  []int64
	until  []time.Time
}

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
