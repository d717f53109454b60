package vitals

import (
	"sync/atomic"
	"time"
)

// StuckAfter is how long an actor may handle one message before its pod reports it.
const StuckAfter = 10 * time.Second

// Watchdog finds an actor stuck in one message. Actors never block, except in the
// embedder's Metrics. It is safe for concurrent use.
type Watchdog struct {
	start  time.Time
	actors map[string]*atomic.Int64 // nanoseconds from start to the current message; 0: idle
}

// NewWatchdog watches the named actors. Others are ignored.
func NewWatchdog(now time.Time, names ...string) Watchdog {
	w := Watchdog{start: now.Add(-time.Nanosecond), actors: map[string]*atomic.Int64{}} // no message begins at 0
	for _, name := range names {
		w.actors[name] = &atomic.Int64{}
	}
	return w
}

// Turn returns the current turn of the named actor; nil: it is not watched.
func (w Watchdog) Turn(name string) *Turn {
	if since := w.actors[name]; since != nil {
		return &Turn{w.start, since}
	}
	return nil
}

// Turn is when one actor began to handle its current message.
type Turn struct {
	start time.Time
	since *atomic.Int64
}

// Enter notes that the actor begins to handle a message.
func (t *Turn) Enter(now time.Time) { t.since.Store(int64(now.Sub(t.start))) }

// Leave notes that it has returned.
func (t *Turn) Leave() { t.since.Store(0) }

// Longest returns the actor that has handled one message for longest, and how long.
func (w Watchdog) Longest(now time.Time) (name string, longest time.Duration) {
	for actor, since := range w.actors {
		if begun := since.Load(); begun != 0 {
			if age := now.Sub(w.start.Add(time.Duration(begun))); age > longest {
				name, longest = actor, age
			}
		}
	}
	return name, longest
}
