package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// place is where a connection leads to: a database of a server that was started at an
// instant. It tells a database from a copy of it, in which every row and file is the same.
// When the server is started again, or a standby takes over, the place changes: then the
// store asks anew where its own connections lead to.
type place struct {
	database string
	started  int64 // in microseconds
}

// queueTenant adds the questions whether a tenant has a group or could get one, and
// where this is asked.
func (s *Store) queueTenant(b *pgsql.Batch, tenant string, room *bool, at *place) {
	b.Add("look_tenant", pgsql.Named{"tenant": tenant, "group_max": s.tenantsMax}).QueryRow(func(row pgx.Row) error {
		var database string
		var started time.Time
		err := row.Scan(room, &database, &started)
		if err == nil {
			*at = place{database, started.UnixMicro()}
		}
		return err
	})
}

// homeTries bounds how often the store asks: a server that was started again has left
// connections in the pool that fail when they are used.
const homeTries = 3

// home returns where the store's own pool leads to.
func (s *Store) home(ctx context.Context) (at place, err error) {
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return at, err
	}
	defer leave()
	var room bool
	for range homeTries {
		b := s.NewBatch()
		s.queueTenant(b, "", &room, &at)
		err = pgerr.Translate(pgsql.Send(ctx, s.Conns, b))
		if !errors.Is(err, persistence.ErrUnavailable) || ctx.Err() != nil {
			break
		}
	}
	return at, err
}

// checkPlace returns why a transaction does not lead to where the store's own pool does,
// or else the error that it has met there. A transaction in which the tables are missing
// has told nothing, but leads to another place if they are there at home.
func (s *Store) checkPlace(ctx context.Context, at place, met error) error {
	lacks := pgerr.HasCode(met, pgerr.CodeUndefinedTable) || pgerr.HasCode(met, pgerr.CodeUndefinedSchema) ||
		pgerr.HasCode(met, pgerr.CodeUndefinedColumn) || pgerr.HasCode(met, pgerr.CodeUndefinedRoutine)
	known := s.at.Load()
	if at == (place{}) && !lacks || known != nil && at == *known {
		return met
	}
	home, err := s.home(ctx)
	switch {
	case err != nil && met != nil:
		return met
	case err != nil:
		return err
	}
	s.at.Store(&home)
	switch {
	case at == home:
		return met
	case lacks:
		return refusedTx(fmt.Errorf("the engine's tables are missing there, and are not in its own database %q: %w", home.database, errOtherDatabase))
	case at.database == home.database:
		return refusedTx(fmt.Errorf("it leads to the database %q of another server: %w", at.database, errOtherDatabase))
	}
	return refusedTx(fmt.Errorf("it leads to the database %q, and the engine to %q: %w", at.database, home.database, errOtherDatabase))
}

// refusedTx is the error of a transaction that a caller passes.
func refusedTx(cause error) error { return fmt.Errorf("%w: %w", persistence.ErrTxRefused, cause) }
