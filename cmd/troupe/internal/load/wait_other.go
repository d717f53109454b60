//go:build !linux

package load

import (
	"context"
	"time"
)

// waitUntil waits for an instant, or for the end of ctx.
func waitUntil(ctx context.Context, at time.Time) { _ = pause(ctx, time.Until(at)) } // callers look at ctx
