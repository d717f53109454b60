package clock

import (
	"context"
	"time"
)

// Clock tells the local time and calls back later. Implementations are safe
// for concurrent use.
type Clock interface {
	// Now is the local time; it carries a monotonic reading where the
	// implementation has one, so that differences survive a step of the wall
	// clock.
	Now() time.Time

	// After calls f once, d from now, on a goroutine that f must not block:
	// an actor's f sends its own PID a message and returns. A d that is not
	// positive means as soon as possible, and never inside After itself.
	//
	// The returned stop cancels the call. It does not wait: f may be running,
	// or have run, when stop returns, so the receiver of f's message compares
	// an epoch of its own. Calling stop again does nothing.
	After(d time.Duration, f func()) (stop func())
}

// System is the machine's clock. Its zero value is ready.
type System struct{}

var _ Clock = System{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// After implements Clock; f runs on a goroutine of its own.
func (System) After(d time.Duration, f func()) (stop func()) {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// Pause waits, and reports whether the context still lasts.
func (System) Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
