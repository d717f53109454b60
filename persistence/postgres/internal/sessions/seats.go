package sessions

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

// Seats bound how many connections of a pool are in the hands of calls that come
// from outside of the engine, so that claims, records and triggers never queue up
// behind them, however many and however slow they are: half of the pool, and of
// that all but one for what may read much. One connection more is for callers that ask
// why nothing moves: the others may be what does not. They are safe for concurrent
// use.
type Seats struct {
	all     chan struct{}
	large   chan struct{}
	explain chan struct{}
}

// NewSeats returns those of a pool of a size.
func NewSeats(poolSize int32) Seats {
	seats := max(poolSize/2, 1)
	return Seats{
		all: make(chan struct{}, seats), large: make(chan struct{}, max(seats-1, 1)), explain: make(chan struct{}, 1),
	}
}

// Sit waits for a seat. leave gives it back.
func (s Seats) Sit(ctx context.Context) (leave func(), err error) { return sit(ctx, s.all) }

// SitLong is Sit for calls whose answers or scans may be long.
func (s Seats) SitLong(ctx context.Context) (leave func(), err error) {
	letIn, err := sit(ctx, s.large)
	if err != nil {
		return nil, err
	}
	stand, err := sit(ctx, s.all)
	if err != nil {
		letIn()
		return nil, err
	}
	return func() { stand(); letIn() }, nil
}

// SitAsking is Sit for callers that ask why nothing moves.
func (s Seats) SitAsking(ctx context.Context) (leave func(), err error) { return sit(ctx, s.explain) }

func sit(ctx context.Context, seats chan struct{}) (leave func(), err error) {
	select {
	case seats <- struct{}{}:
		return func() { <-seats }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: as many calls of callers as may use the engine's own connections were under way: %w",
			persistence.ErrUnavailable, context.Cause(ctx))
	}
}
