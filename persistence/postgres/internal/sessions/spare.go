package sessions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
)

// A server that has no connection to give, as to a role that may have no more, gives
// none to the lease and the leader either, which a pod cannot do without. They get one
// that the pool has: what is closed and asked for again goes to the faster client.

const (
	giveMax   = time.Second     // for a connection that is given back
	giveRest  = 2 * time.Second // until the pool may grow again
	giveAgain = 5 * time.Second // between two that are given away
	giveLeft  = 1               // stays
)

// Give lends a connection of the pool to fit, for a caller that cannot do without
// one and is refused it. If fit returns true, the connection leaves the pool: it is the
// caller's, with the settings of the store's sessions. After an error it is closed. Nil:
// there is none to spare, it is a proxy's, or fit returned false.
func (p *Pool) Give(ctx context.Context, fit func(ctx context.Context, conn *pgx.Conn) (bool, error)) (*pgx.Conn, error) {
	select {
	case p.giving <- struct{}{}:
		defer func() { <-p.giving }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := clock.System{}.Now()
	if p.Proxied() || !p.given.IsZero() && now.Sub(p.given) < giveAgain {
		return nil, nil
	}
	if stat := p.pool.Stat(); stat.AcquiredConns()+stat.IdleConns() <= giveLeft {
		return nil, nil
	}
	p.dials.rest(giveRest)
	ctx, cancel := context.WithTimeout(ctx, giveMax)
	defer cancel()
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, nil // there is none to spare
	}
	fits, err := fit(ctx, conn.Conn())
	if err == nil && fits {
		p.given = now
		return conn.Hijack(), nil
	}
	if err != nil {
		_ = conn.Conn().Close(ctx) // what it holds is not known
	}
	conn.Release()
	return nil, err
}

// Lend runs do, for a caller that makes settings of its own, on a connection of the pool,
// which has its settings back after it.
func (p *Pool) Lend(ctx context.Context, do func(on *pgx.Conn) error) error {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := unsettle(ctx, conn.Conn()); err != nil {
			_ = conn.Conn().Close(ctx) // no other caller may have it
		}
		conn.Release()
	}()
	return do(conn.Conn())
}
