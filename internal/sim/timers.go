package sim

import (
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// After runs f as an event of the world, d from now. It is safe for concurrent
// use, and f runs on the goroutine that steps the world.
func (w *World) After(d time.Duration, f func()) (stop func()) {
	now := w.pace.Now()
	w.mu.Lock()
	timer := w.timers.Add(now.Add(max(d, 0)), f)
	first := w.timers.First() == timer
	w.mu.Unlock()
	if first {
		w.pace.Poke()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timers.Remove(timer)
	}
}

// due takes the timers whose instants have come.
func (w *World) due() (list []*clock.Entry) {
	now := w.pace.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for timer := w.timers.Take(now); timer != nil; timer = w.timers.Take(now) {
		list = append(list, timer)
	}
	return list
}

// next is the instant of the earliest timer.
func (w *World) next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	timer := w.timers.First()
	if timer == nil {
		return time.Time{}, false
	}
	return timer.At, true
}
