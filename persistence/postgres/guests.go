package postgres

import "context"

// Guests are calls that come from outside of the engine: they share a part of the
// store's own connections.

// guest waits for a seat. leave gives it back, and ends the context of the call.
func (s *Store) guest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, s.seats.Sit)
}

// largeGuest is guest for calls whose answers or scans may be long.
func (s *Store) largeGuest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, s.seats.SitLong)
}

func seated(ctx context.Context, sit func(context.Context) (func(), error)) (call context.Context, leave func(), err error) {
	ctx, cancel := bounded(ctx)
	stand, err := sit(ctx)
	if err != nil {
		cancel()
		return ctx, nil, err
	}
	return ctx, func() { stand(); cancel() }, nil
}
