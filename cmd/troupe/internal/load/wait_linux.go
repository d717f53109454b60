package load

import (
	"context"
	"syscall"
	"time"
)

// waitUntil waits for an instant, or for the end of ctx. The runtime's timers
// are up to a millisecond late in a process that is otherwise idle, which is
// longer than what is measured; so the last bit is left to the kernel.
func waitUntil(ctx context.Context, at time.Time) {
	const last = 2 * time.Millisecond
	if left := time.Until(at) - last; left > 0 {
		if pause(ctx, left) != nil {
			return
		}
	}
	for left := time.Until(at); left > 0 && ctx.Err() == nil; left = time.Until(at) {
		span := syscall.NsecToTimespec(int64(left))
		if syscall.Nanosleep(&span, nil) != nil {
			continue // a signal came: what is left is slept again
		}
	}
}
