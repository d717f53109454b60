package sim

import (
	"cmp"
	"slices"

	"github.com/troupe-dev/troupe/actors"
)

// spinsMax is how many steps one instant may take: more is a loop that waits
// for nothing.
const spinsMax = 200_000

// arrival is a message from outside of the world.
type arrival struct {
	pod     *Pod
	to      *actors.PID
	message any
	run     func() // instead of a message
	key     string // where it stands among those that arrive with it; "": at its actor's
}

// arrive takes in a message from a goroutine that is not the world's. It is
// delivered when everything outside waits, in an order that does not depend on
// which goroutine was faster. It is safe for concurrent use.
func (w *World) arrive(a arrival) {
	w.mu.Lock()
	w.arrivals = append(w.arrivals, a)
	w.mu.Unlock()
	w.pace.Poke()
}

func (w *World) takeArrivals() {
	w.mu.Lock()
	list := w.arrivals
	w.arrivals = nil
	w.mu.Unlock()
	slices.SortStableFunc(list, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.to.GetId(), b.to.GetId()))
	})
	for _, a := range list {
		switch {
		case a.run != nil:
			a.run()
		case !a.pod.dead:
			w.system.Root.Send(a.to, a.message)
		}
	}
}

// Step delivers one message, or moves the clock to the next timers and runs
// them. It returns false when nothing is left to happen, and when a promise is
// broken.
func (w *World) Step() bool {
	if w.violation != nil {
		return false
	}
	w.pace.Settle()
	w.takeArrivals()
	for {
		b := w.choose()
		if b == nil {
			break
		}
		if !b.runnable() {
			continue // its pod was crashed or paused, or it was suspended
		}
		w.steps++
		if w.spins++; w.spins > spinsMax {
			w.Fail("I12", "%d messages at one instant: a loop, last to %s", w.spins, b.id)
			return false
		}
		b.pod.beforeMessage()
		if !b.runnable() {
			return true
		}
		b.deliver()
		b.pod.afterMessage(b)
		return w.violation == nil
	}
	return w.advance()
}

// advance moves the clock to the next timers and runs them.
func (w *World) advance() bool {
	list := w.due()
	if len(list) == 0 {
		at, ok := w.next()
		if !ok {
			return false
		}
		w.spins = 0
		w.pace.Advance(at)
		list = w.due()
	}
	for _, t := range list {
		w.guard(t.Run)
		w.pace.Settle() // goroutines that it woke go first
	}
	return w.violation == nil
}

// guard runs an event of the world. A violation that it panics with ends the
// world; everything else is a mistake of ours.
func (w *World) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok {
				panic(r)
			}
			w.fail(v)
		}
	}()
	f()
}

// choose takes the next box from the ready ones; nil: there is none.
func (w *World) choose() *box {
	if len(w.ready) == 0 {
		return nil
	}
	at := 0
	switch w.options.Order {
	case FIFO:
		b := w.ready[0]
		w.ready = w.ready[1:]
		b.queued = false
		return b
	case Priority:
		for i, b := range w.ready {
			if b.rank > w.ready[at].rank {
				at = i
			}
		}
		if w.random.IntN(64) == 0 { // a change point
			w.ready[at].rank = w.random.Uint64()
		}
	case Starve:
		at = w.notStarved()
	case Uniform:
		at = w.random.IntN(len(w.ready))
	}
	b, last := w.ready[at], len(w.ready)-1
	w.ready[at], w.ready[last] = w.ready[last], nil
	w.ready = w.ready[:last]
	b.queued = false
	return b
}

// notStarved chooses among the boxes of all pods but one, if there are any.
func (w *World) notStarved() int {
	if w.starvedIn--; w.starvedIn < 0 {
		w.starvedIn, w.starved = 200+w.random.IntN(2000), w.random.IntN(len(w.pods))
	}
	first := w.random.IntN(len(w.ready))
	for i := range w.ready {
		at := (first + i) % len(w.ready)
		if w.ready[at].pod != w.pods[w.starved] {
			return at
		}
	}
	return first
}
