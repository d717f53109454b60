package peer

import (
	"context"
	"sync"
)

// Spread calls do for every item on several goroutines, and returns the first
// error, after which nothing more is begun.
func Spread[T any](ctx context.Context, callers int, items []T, do func(T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan T)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for item := range work {
				if err := do(item); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for _, item := range items {
		select {
		case work <- item:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(work)
	all.Wait()
	return context.Cause(ctx)
}
