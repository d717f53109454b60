package troupe

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
)

// nested tracks the step functions of an engine that wait for the end of runs. Each
// keeps its slot while it waits, so that no slot may be left for those runs. It is
// safe for concurrent use.
type nested struct {
	mu    sync.Mutex
	waits map[actors.Attempt]*nestedWait
}

// nestedWait is what one step function waits for.
type nestedWait struct {
	runs  int       // at the same time
	since time.Time // the first of them
}

func newNested() *nested { return &nested{waits: map[actors.Attempt]*nestedWait{}} }

// wait notes that a step function of the engine waits for the end of a run of the engine,
// until over is called. Other callers hold none of its slots.
func (n *nested) wait(ctx context.Context) (over func()) {
	attempt := actors.AttemptFrom(ctx)
	if of := scopeOf(ctx).engine; attempt == nil || of == nil || of.nested != n {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.waits[attempt]
	if w == nil {
		w = &nestedWait{since: clock.System{}.Now()}
		n.waits[attempt] = w
	}
	if w.runs++; w.runs == 1 {
		attempt.Waits(true)
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if w.runs--; w.runs == 0 {
			delete(n.waits, attempt)
			attempt.Waits(false)
		}
	}
}

// waiting returns how many step functions have waited for at least that long.
func (n *nested) waiting(long time.Duration) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := clock.System{}.Now()
	for _, w := range n.waits {
		if now.Sub(w.since) >= long {
			count++
		}
	}
	return count
}

// nestedFor is how long all slots may be held by waiting functions before the pod
// reports it.
const nestedFor = 10 * time.Second

// trouble says that step functions that wait for runs hold all slots; "": they do
// not.
func (n *nested) trouble(s Stats) string {
	if s.Free > 0 || s.Running == 0 || n.waiting(nestedFor) < s.Running {
		return ""
	}
	return "every slot is held by a step function that waits for the end of another run, which may need one: " +
		"make it a step of troupe.Child, which waits without a slot, or give the pod more slots (Slots), " +
		"or what is waited for a queue with slots of its own (QueueSlots, OnQueue)"
}
