package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
)

// dials keeps a pool from asking a server for connections that has none to give,
// but for one try now and then: each costs the server a process and a login. It is
// safe for concurrent use.
type dials struct {
	mu   sync.Mutex
	full bool      // the last try was refused
	next time.Time // when another one may be made
}

// crowdedTry is the time between two tries.
const crowdedTry = 500 * time.Millisecond

var errCrowded = fmt.Errorf("%w: it had no connection to give a moment ago", persistence.ErrNoResources)

// prepare has a pool ask first.
func (d *dials) prepare(config *pgxpool.Config) {
	before, after := config.BeforeConnect, config.AfterConnect
	config.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		if !d.mayTry() {
			return errCrowded
		}
		if before == nil {
			return nil
		}
		return before(ctx, conn)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		d.note(false)
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}

func (d *dials) mayTry() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := clock.System{}.Now()
	if d.full && now.Before(d.next) {
		return false
	}
	d.next = now.Add(crowdedTry)
	return true
}

// rest keeps the pool from asking for some time.
func (d *dials) rest(pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.next = true, clock.System{}.Now().Add(pause)
}

// note says how a try ended.
func (d *dials) note(refused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if refused && !d.full {
		d.next = clock.System{}.Now().Add(crowdedTry)
	}
	d.full = refused
}

// codeTooMany is the SQLSTATE of a server, or a role, that has no connection to give.
const codeTooMany = "53300"

// noConnection reports whether there was none to be had, and whether the server
// said so.
func noConnection(err error) (none, said bool) {
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	said = errors.As(err, &connect) && errors.As(err, &server) && server.Code == codeTooMany
	return said || errors.Is(err, errCrowded), said
}
