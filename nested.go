package troupe

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
)

// nested is the step functions of an engine that wait for the end of other runs. Each
// keeps its slot meanwhile, so the runs that all of them wait for may have none. It is
// safe for concurrent use.
type nested struct {
	mu     sync.Mutex
	last   int64
	begins map[int64]time.Time
}

// wait notes that a caller waits for the end of a run, if it is a step function, until
// over is called.
func (n *nested) wait(ctx context.Context) (over func()) {
	if actors.AttemptFrom(ctx) == nil {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begins == nil {
		n.begins = map[int64]time.Time{}
	}
	n.last++
	number := n.last
	n.begins[number] = clock.System{}.Now()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.begins, number)
	}
}

// waiting is how many have waited for as long as that.
func (n *nested) waiting(long time.Duration) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, began := range n.begins {
		if (clock.System{}).Now().Sub(began) >= long {
			count++
		}
	}
	return count
}

// nestedFor is after how long a pod whose slots are all held so says that it is.
const nestedFor = 10 * time.Second

// stand says that all slots of a pod are held by step functions that wait for runs; "":
// they are not.
func (n *nested) stand(s Stats) string {
	if s.Free > 0 || s.Running == 0 || n.waiting(nestedFor) < s.Running {
		return ""
	}
	return "every slot is held by a step function that waits for the end of another run, which may need one: " +
		"give the pod more slots, or a queue of its own to what is waited for (QueueSlots, OnQueue), or do not wait inside steps"
}
