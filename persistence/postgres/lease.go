package postgres

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/clock"
)

// givenUp is how many connections of a line may be on their way out at once. One
// that was given up, because nothing came back on it, keeps its place in the
// pool for up to 15 s, and a ping gives up after 1.5 s.
const givenUp = 10

// line is a connection whose users take turns, so that there is one at a time,
// besides those that were given up. It is safe for concurrent use.
type line struct {
	pool *pgxpool.Pool
	turn chan struct{}

	// lend runs do on a connection of somebody else's, where the server has none to
	// give. Nil: nobody's.
	lend    func(ctx context.Context, do func(on *pgx.Conn) error) error
	refused time.Time // when the server had none; guarded by turn
}

func openLine(ctx context.Context, config *pgxpool.Config) (line, error) {
	config.MaxConns = 1 + givenUp
	config.MaxConnIdleTime = time.Hour // it is not for others, however rarely it is used
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return line{pool: pool, turn: make(chan struct{}, 1)}, err
}

// leaseLine is the connection that renews the lease.
type leaseLine struct {
	line

	ttl atomic.Int64 // of the lease that was renewed last; 0: none was
}

// openLease makes the line apart from the store's own pool: whoever reads a lot,
// or cancels many runs at once, would otherwise queue in front of a renewal and
// cost the pod its lease.
func openLease(ctx context.Context, options Options) (*leaseLine, error) {
	l := &leaseLine{}
	config := ownPool(options)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		if ttl := l.ttl.Load(); ttl > 0 { // not in the time of a renewal
			return l.settle(ctx, conn, time.Duration(ttl))
		}
		return nil
	}
	var err error
	l.line, err = openLine(ctx, config)
	return l, err
}

// use waits for the line and runs do on it.
func (l *line) use(ctx context.Context, do func(on *pgx.Conn) error) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	now := clock.System{}.Now()
	if l.lend != nil && !l.refused.IsZero() && now.Sub(l.refused) < refusedFor {
		return l.borrow(ctx, do)
	}
	conn, err := l.pool.Acquire(ctx)
	if _, said := noConnection(err); said && l.lend != nil {
		l.refused = now
		return l.borrow(ctx, do)
	}
	if err != nil {
		return err
	}
	defer conn.Release()
	l.refused = time.Time{}
	return do(conn.Conn())
}

// borrow runs do on somebody else's connection. If that comes to nothing, the next use
// asks for one of its own again, as there may be room by then.
func (l *line) borrow(ctx context.Context, do func(on *pgx.Conn) error) error {
	err := l.lend(ctx, do)
	if err != nil {
		l.refused = time.Time{}
	}
	return err
}

// refusedFor is how long a line that was refused a connection asks for no other.
const refusedFor = 5 * time.Second

// Parts of a lease: of the two fifths that a renewal has, a statement may wait
// for a lock for a tenth, and take three in all, so that there is time left to
// renew the lease alone. Short leases are for tests: then a machine that is busy
// counts for more.
const (
	leaseLockPart, leaseLockMin, leaseLockMax                = 10, 50 * time.Millisecond, 2 * time.Second
	leaseStatementPart, leaseStatementMin, leaseStatementMax = 10, 250 * time.Millisecond, 30 * time.Second
)

// settle has the server end the statements of a renewal while the rest of it
// still has time. The server does, because it alone can tell a lock that is
// waited for from a network that is slow, and the connection is kept.
func (l *leaseLine) settle(ctx context.Context, on *pgx.Conn, ttl time.Duration) error {
	l.ttl.Store(int64(ttl))
	if on.PgConn().CustomData()[settled] == ttl {
		return nil
	}
	lock := min(max(ttl/leaseLockPart, leaseLockMin), leaseLockMax)
	statement := min(max(3*ttl/leaseStatementPart, leaseStatementMin), leaseStatementMax)
	_, err := on.Exec(ctx, "select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)",
		strconv.FormatInt(lock.Milliseconds(), 10), strconv.FormatInt(statement.Milliseconds(), 10))
	if err == nil {
		on.PgConn().CustomData()[settled] = ttl
	}
	return err
}

// settled is the mark of a connection that settle has set.
const settled = "troupe lease"

// unsettle undoes settle on a connection that goes back to the store's pool.
func unsettle(ctx context.Context, on *pgx.Conn) error {
	if on.PgConn().CustomData()[settled] == nil {
		return nil
	}
	delete(on.PgConn().CustomData(), settled)
	usual := statementSettings()
	_, err := on.Exec(ctx, "select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)",
		usual["lock_timeout"], usual["statement_timeout"])
	return err
}

// Ping asks for an answer on the connection that renews the pod's lease: whoever
// gets none cannot renew it either.
func (s *Store) Ping(ctx context.Context) error {
	return translate(s.lease.use(ctx, func(on *pgx.Conn) error { return on.Ping(ctx) }))
}

// PingPool asks for an answer the way that the store's own pool connects, which
// may be another than Ping's: through a proxy. It does not queue for the pool's
// connections.
func (s *Store) PingPool(ctx context.Context) error {
	if s.proxied == nil {
		return s.Ping(ctx)
	}
	return translate(s.proxied.use(ctx, func(on *pgx.Conn) error { return on.Ping(ctx) }))
}
