package pgsql

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
)

// Guests are calls that come from outside of the engine: they share a part of the
// store's own connections.

// Guest waits for a seat. leave gives it back, and ends the context of the call.
func (d *DB) Guest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, d.Seats.Sit)
}

// LargeGuest is Guest for calls whose answers or scans may be long.
func (d *DB) LargeGuest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, d.Seats.SitLong)
}

// AskingGuest is Guest for the question why a run does not move, which reads long.
func (d *DB) AskingGuest(ctx context.Context) (call context.Context, leave func(), err error) {
	return seated(ctx, d.Seats.SitAsking)
}

func seated(ctx context.Context, sit func(context.Context) (func(), error)) (call context.Context, leave func(), err error) {
	ctx, cancel := pgerr.Bounded(ctx)
	stand, err := sit(ctx)
	if err != nil {
		cancel()
		return ctx, nil, err
	}
	return ctx, func() { stand(); cancel() }, nil
}
