package steptx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
)

// A connection of the embedder's pool that was reset (discard all) has lost the statements
// that pgx has prepared on it, and pgx does not know: whatever it sends next is refused,
// each statement once.

// forgottenFor is how long connections are asked for their statements after one had none.
const forgottenFor = time.Minute

// ForgottenRemedy says what to do about them.
const ForgottenRemedy = "connections of the pool that was given to the engine have lost their prepared statements, as by DISCARD ALL in a hook of it:" +
	" reset what a session has with other statements, or give the pool default_query_exec_mode=cache_describe"

// Forgetting remembers that there was one. It is safe for concurrent use.
type forgetting struct {
	log *slog.Logger // nil: nothing is logged

	mu   sync.Mutex
	last time.Time
}

// lately reports whether connections are to be asked.
func (f *forgetting) lately() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.last.IsZero() && clock.System{}.Now().Sub(f.last) < forgottenFor
}

// Note notes that a connection has lost its statements.
func (f *forgetting) Note(ctx context.Context, err error) {
	known := f.lately()
	f.mu.Lock()
	f.last = clock.System{}.Now()
	f.mu.Unlock()
	if !known && f.log != nil {
		f.log.LogAttrs(ctx, slog.LevelWarn, ForgottenRemedy, slog.String("error", wherein(err)))
	}
}

// Forgotten reports whether a statement was refused that pgx believed to be prepared: no
// trigger raised it.
func Forgotten(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgerr.CodeNoStatement && pg.Where == ""
}

// StatementsLost is the error of a statement of the engine's in the transaction of a step
// on such a connection.
func StatementsLost(err error) error {
	return fmt.Errorf("%w: %s: %w", persistence.ErrTxBroken, ForgottenRemedy, err)
}

// Remind has pgx prepare its statements anew on a connection that has none, if others
// came without theirs lately.
func (s *Steps) Remind(ctx context.Context, conn *pgx.Conn) error {
	if !s.Forgetting.lately() {
		return nil
	}
	results, err := conn.PgConn().Exec(ctx, "select from pg_catalog.pg_prepared_statements limit 1").ReadAll()
	if err != nil || len(results) > 0 && len(results[0].Rows) > 0 {
		return err
	}
	return conn.DeallocateAll(ctx)
}
