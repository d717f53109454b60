package sim

import (
	"container/heap"
	"time"
)

// timer is a function that waits for its instant.
type timer struct {
	at    time.Time
	order uint64 // of its making: the tie-break of equal times
	run   func()
	index int // in the heap; -1 once it has left
}

// timers implements heap.Interface by (at, order).
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timers) Push(x any) {
	t := x.(*timer) //nolint:errcheck // only After pushes
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}

// After runs f as an event of the world, d from now. It is safe for concurrent
// use, and f runs on the goroutine that steps the world.
func (w *World) After(d time.Duration, f func()) (stop func()) {
	now := w.pace.Now()
	w.mu.Lock()
	w.made++
	t := &timer{at: now.Add(max(d, 0)), order: w.made, run: f}
	heap.Push(&w.timers, t)
	first := t.index == 0
	w.mu.Unlock()
	if first {
		w.pace.Poke()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.index >= 0 {
			heap.Remove(&w.timers, t.index)
		}
	}
}

// due takes the timers of the earliest instant, if that has come.
func (w *World) due() []*timer {
	now := w.pace.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*timer
	for len(w.timers) > 0 && !w.timers[0].at.After(now) {
		list = append(list, heap.Pop(&w.timers).(*timer)) //nolint:errcheck // the heap holds nothing else
	}
	return list
}

// next is the instant of the earliest timer.
func (w *World) next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.timers) == 0 {
		return time.Time{}, false
	}
	return w.timers[0].at, true
}
