package sim

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// What worlds offer to goroutines beside the one that steps them, in a pace
// that settles.

// Enter runs f as an event of the world, once everything outside waits. Of
// several that enter at once the lowest key goes first. It is safe for
// concurrent use.
func (w *World) Enter(key string, f func()) { w.arrive(arrival{key: key, run: f}) }

// Arrive brings a message of a goroutine to an actor of the pod. It is safe for
// concurrent use.
func (p *Pod) Arrive(to *actors.PID, message any) {
	p.world.arrive(arrival{pod: p, to: to, message: message})
}

// After runs f as an event of the pod: d from now on its clock, later if it is
// paused, never if it has ended. It is safe for concurrent use.
func (p *Pod) After(d time.Duration, f func()) (stop func()) { return p.clock().After(d, f) }

// Busy reports whether anything can happen at this instant.
func (w *World) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	timer := w.timers.First()
	return len(w.ready) > 0 || len(w.arrivals) > 0 || timer != nil && !timer.At.After(w.pace.Now())
}

// Note adds a line to the history.
func (w *World) Note(kind, where, what string) { w.note(kind, where, what) }

// Faulted counts the faults so far.
func (w *World) Faulted() int { return len(w.faults.done) }

// Freeze stops all pods where they are, and what happens by the second, until
// Thaw: a long time in which nothing is to be done then costs nothing. To the
// pods it is a pause that hits all of them.
func (w *World) Freeze() {
	w.note("freeze", "", "")
	w.frozen = true
}

// Frozen reports whether the world is frozen.
func (w *World) Frozen() bool { return w.frozen }

// Thaw ends a Freeze.
func (w *World) Thaw() {
	if !w.frozen {
		return
	}
	w.note("thaw", "", "")
	w.frozen = false
	w.After(time.Second, w.second)
	for _, p := range w.pods {
		held := p.held
		p.held = nil
		for _, f := range held {
			w.After(0, f)
		}
		p.wakeAll()
	}
}
