package sim

import "time"

// Pace is how a world moves through time, and how it lets goroutines run that are
// not events of it.
type Pace interface {
	// Now is the virtual time. It is safe for concurrent use.
	Now() time.Time
	// Advance returns at t, or earlier after a Poke.
	Advance(t time.Time)
	// Settle returns once everything outside of the world waits.
	Settle()
	// Poke ends an Advance. It is safe for concurrent use.
	Poke()
}

// Alone is the pace of a world in which nothing runs but its events: time is a
// number.
type Alone struct{ now time.Time }

var _ Pace = (*Alone)(nil)

// NewAlone returns a pace that stands at Epoch.
func NewAlone() *Alone { return &Alone{now: Epoch()} }

// Epoch is when the time of a world begins.
func Epoch() time.Time { return time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Now implements Pace.
func (a *Alone) Now() time.Time { return a.now }

// Advance implements Pace.
func (a *Alone) Advance(t time.Time) { a.now = t }

// Settle implements Pace: no other goroutine exists.
func (*Alone) Settle() {}

// Poke implements Pace: no other goroutine exists that could call it.
func (*Alone) Poke() {}
