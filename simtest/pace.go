package simtest

import (
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// bubble is the pace of a world in a bubble of testing/synctest: its clock is
// the bubble's, and everything outside of it waits when the bubble says so.
type bubble struct{ poked chan struct{} }

var _ sim.Pace = (*bubble)(nil)

func newBubble() *bubble { return &bubble{poked: make(chan struct{}, 1)} }

// Now implements sim.Pace.
func (*bubble) Now() time.Time { return time.Now().UTC() }

// Advance implements sim.Pace. Others that wait for the same instant go first.
func (b *bubble) Advance(t time.Time) {
	timer := time.NewTimer(time.Until(t))
	select {
	case <-timer.C:
	case <-b.poked:
		timer.Stop()
	}
	synctest.Wait()
}

// Settle implements sim.Pace.
func (*bubble) Settle() { synctest.Wait() }

// Poke implements sim.Pace.
func (b *bubble) Poke() {
	select {
	case b.poked <- struct{}{}:
	default:
	}
}

// wait returns after a Poke.
func (b *bubble) wait() {
	<-b.poked
	synctest.Wait()
}
