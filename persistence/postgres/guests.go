package postgres

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

// guests bounds how many of the store's own connections are in the hands of calls
// that come from outside of the engine, so that claims, records and triggers
// never queue up behind them, however many and however slow they are: half of the
// pool, and of that all but one for what may read much. One connection more is
// for whoever asks why nothing moves: the others may be what does not. It is safe
// for concurrent use.
type guests struct {
	seats   chan struct{}
	large   chan struct{}
	explain chan struct{}
}

func newGuests(poolSize int32) guests {
	seats := max(poolSize/2, 1)
	return guests{
		seats: make(chan struct{}, seats), large: make(chan struct{}, max(seats-1, 1)), explain: make(chan struct{}, 1),
	}
}

// guest waits for a seat. leave gives it back, and ends the context of the call.
func (s *Store) guest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, s.guests.seats)
}

func seated(ctx context.Context, seats chan struct{}) (call context.Context, leave func(), err error) {
	ctx, cancel := bounded(ctx)
	if err = sit(ctx, seats); err != nil {
		cancel()
		return ctx, nil, err
	}
	return ctx, func() { <-seats; cancel() }, nil
}

// largeGuest is guest for calls whose answers or scans may be long.
func (s *Store) largeGuest(ctx context.Context) (call context.Context, leave func(), err error) {
	ctx, letIn, err := seated(ctx, s.guests.large)
	if err != nil {
		return ctx, nil, err
	}
	ctx, stand, err := s.guest(ctx)
	if err != nil {
		letIn()
		return ctx, nil, err
	}
	return ctx, func() { stand(); letIn() }, nil
}

func sit(ctx context.Context, seats chan struct{}) error {
	select {
	case seats <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: as many calls of callers as may use the engine's own connections were under way: %w",
			persistence.ErrUnavailable, context.Cause(ctx))
	}
}
