package sessions

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

// CallerSlots bound how many connections of a pool are in the hands of calls that come
// from outside of the engine, so that claims, records and triggers never queue up
// behind them, however many and however slow they are: half of the pool, and of
// that all but one for what may read much. One connection more is for callers that ask
// why nothing moves: the others may be what does not. They are safe for concurrent
// use.
type CallerSlots struct {
	all     chan struct{}
	large   chan struct{}
	explain chan struct{}
}

// NewCallerSlots returns those of a pool of a size.
func NewCallerSlots(poolSize int32) CallerSlots {
	slots := max(poolSize/2, 1)
	return CallerSlots{
		all: make(chan struct{}, slots), large: make(chan struct{}, max(slots-1, 1)), explain: make(chan struct{}, 1),
	}
}

// Take waits for a slot. leave gives it back.
func (s CallerSlots) Take(ctx context.Context) (leave func(), err error) { return take(ctx, s.all) }

// TakeLong is Take for calls whose answers or scans may be long.
func (s CallerSlots) TakeLong(ctx context.Context) (leave func(), err error) {
	releaseLarge, err := take(ctx, s.large)
	if err != nil {
		return nil, err
	}
	release, err := take(ctx, s.all)
	if err != nil {
		releaseLarge()
		return nil, err
	}
	return func() { release(); releaseLarge() }, nil
}

// TakeExplaining is Take for callers that ask why nothing moves.
func (s CallerSlots) TakeExplaining(ctx context.Context) (leave func(), err error) {
	return take(ctx, s.explain)
}

func take(ctx context.Context, slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: as many calls of callers as may use the engine's own connections were under way: %w",
			persistence.ErrUnavailable, context.Cause(ctx))
	}
}
