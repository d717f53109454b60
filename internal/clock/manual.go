package clock

import (
	"container/heap"
	"sync"
	"time"
)

// Manual is a clock that moves only in Advance. Callbacks run on the goroutine
// that advances, ordered by their time and, at equal times, by the order of
// their After calls. Safe for concurrent use, except that a callback must not
// call Advance.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	waiting callbackHeap
	asked   uint64 // After calls so far: the tie-break of equal times
}

var _ Clock = (*Manual)(nil)

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After implements Clock; f runs inside the Advance that reaches its time.
func (m *Manual) After(d time.Duration, f func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	c := &callback{at: m.now.Add(max(d, 0)), order: m.asked, run: f}
	heap.Push(&m.waiting, c)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c.index >= 0 {
			heap.Remove(&m.waiting, c.index)
		}
	}
}

// Advance moves the clock by d and runs what becomes due on the way, each
// callback at its own time: Now inside it is the time it asked for, and what
// it asks for in turn runs too if it falls within d. A negative d panics: time
// does not go back.
func (m *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration")
	}
	end := m.Now().Add(d)
	for {
		run := m.due(end)
		if run == nil {
			return
		}
		run()
	}
}

// Next is the time of the earliest callback that waits; false means none does.
func (m *Manual) Next() (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return time.Time{}, false
	}
	return m.waiting[0].at, true
}

// due moves the clock to the next callback within end and returns it, or to
// end itself and returns nil. The callback runs without the lock.
func (m *Manual) due(end time.Time) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 || m.waiting[0].at.After(end) {
		m.now = end
		return nil
	}
	c := heap.Pop(&m.waiting).(*callback) //nolint:errcheck // the heap holds nothing else
	m.now = c.at
	return c.run
}

// callback is one After call that has neither run nor been stopped.
type callback struct {
	at    time.Time
	order uint64
	run   func()
	index int // in the heap; -1 once it has left
}

// callbackHeap implements heap.Interface by (at, order).
type callbackHeap []*callback

func (h callbackHeap) Len() int { return len(h) }

func (h callbackHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h callbackHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *callbackHeap) Push(x any) {
	c := x.(*callback) //nolint:errcheck // only After pushes
	c.index = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *callbackHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	c.index = -1
	return c
}
