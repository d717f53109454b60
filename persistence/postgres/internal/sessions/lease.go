package sessions

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lease is the connection that renews the lease. It is safe for concurrent use.
type Lease struct {
	*Line

	ttl atomic.Int64 // of the lease that was renewed last; 0: none was
}

// OpenLease makes the line apart from the pool: a caller that reads a lot, or cancels many
// runs at once, would otherwise queue in front of a renewal and cost the pod its
// lease. Where the server has no connection to give, the pool lends one, if its
// connections are the server's. It connects when it is used.
func OpenLease(ctx context.Context, options Options, from *Pool) (*Lease, error) {
	l := &Lease{}
	config := options.direct()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		if ttl := l.ttl.Load(); ttl > 0 { // not in the time of a renewal
			return l.Settle(ctx, conn, time.Duration(ttl))
		}
		return nil
	}
	var err error
	if l.Line, err = openLine(ctx, config); err != nil {
		return nil, err
	}
	if !from.Proxied() {
		l.lend = from.Lend
	}
	return l, nil
}

// Parts of a lease: of the two fifths that a renewal has, a statement may wait
// for a lock for a tenth, and take three in all, so that there is time left to
// renew the lease alone. Short leases are for tests: then a machine that is busy
// counts for more.
const (
	leaseLockPart, leaseLockMin, leaseLockMax                = 10, 50 * time.Millisecond, 2 * time.Second
	leaseStatementPart, leaseStatementMin, leaseStatementMax = 10, 250 * time.Millisecond, 30 * time.Second
)

// Settle has the server end the statements of a renewal while the rest of it
// still has time. The server does, because it alone can tell a lock that is
// waited for from a network that is slow, and the connection is kept.
func (l *Lease) Settle(ctx context.Context, on *pgx.Conn, ttl time.Duration) error {
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

// settled is the mark of a connection that Settle has set.
const settled = "troupe lease"

// unsettle undoes Settle on a connection that goes back to the pool.
func unsettle(ctx context.Context, on *pgx.Conn) error {
	if on.PgConn().CustomData()[settled] == nil {
		return nil
	}
	delete(on.PgConn().CustomData(), settled)
	usual := Settings()
	_, err := on.Exec(ctx, "select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)",
		usual["lock_timeout"], usual["statement_timeout"])
	return err
}
