package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// leaseGivenUp is how many connections of the lease may be on their way out at
// once. One that was given up, because nothing came back on it, keeps its place
// in the pool for up to 15 s, and a ping gives up after 1.5 s.
const leaseGivenUp = 10

// leaseLine is the connection that renews the lease. Its users take turns, so
// that there is one at a time, besides those that were given up. It is safe for
// concurrent use.
type leaseLine struct {
	pool *pgxpool.Pool
	turn chan struct{}
}

// openLease makes the line apart from the store's own pool: whoever reads a lot,
// or cancels many runs at once, would otherwise queue in front of a renewal and
// cost the pod its lease.
func openLease(ctx context.Context, options Options) (*leaseLine, error) {
	config := ownPool(options)
	config.MaxConns = 1 + leaseGivenUp
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &leaseLine{pool: pool, turn: make(chan struct{}, 1)}, nil
}

// use waits for the line and runs do on it.
func (l *leaseLine) use(ctx context.Context, do func(on *pgxpool.Pool) error) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	return do(l.pool)
}

// Ping asks for an answer on the connection that renews the pod's lease: whoever
// gets none cannot renew it either.
func (s *Store) Ping(ctx context.Context) error {
	return translate(s.lease.use(ctx, func(on *pgxpool.Pool) error { return on.Ping(ctx) }))
}
