package pgsql

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
)

// Calls that come from outside of the engine share a part of the store's own connections.

// Caller waits for a slot of callers. leave gives it back, and ends the context of the call.
func (d *DB) Caller(ctx context.Context) (call context.Context, leave func(), err error) {
	return withSlot(ctx, d.CallerSlots.Take)
}

// LargeCaller is Caller for calls whose answers or scans may be long.
func (d *DB) LargeCaller(ctx context.Context) (call context.Context, leave func(), err error) {
	return withSlot(ctx, d.CallerSlots.TakeLong)
}

// ExplainCaller is Caller for the question why a run does not move, which reads long.
func (d *DB) ExplainCaller(ctx context.Context) (call context.Context, leave func(), err error) {
	return withSlot(ctx, d.CallerSlots.TakeExplaining)
}

func withSlot(ctx context.Context, take func(context.Context) (func(), error)) (call context.Context, leave func(), err error) {
	ctx, cancel := pgerr.Bounded(ctx)
	release, err := take(ctx)
	if err != nil {
		cancel()
		return ctx, nil, err
	}
	return ctx, func() { release(); cancel() }, nil
}
