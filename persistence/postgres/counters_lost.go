package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// retry is retry for what gives places in queues: once a place turns out to be
// taken, somebody has removed the counters that tell places apart.
func (s *Store) retry(ctx context.Context, do func(context.Context) error) error {
	return retry(ctx, func(ctx context.Context) error { return s.mendCounters(ctx, do(ctx)) })
}

// mendCounters makes lost counters again if that is what an error says, and
// returns the error, or why that failed.
func (s *Store) mendCounters(ctx context.Context, err error) error {
	if !placeTaken(err) {
		return err
	}
	return errors.Join(err, s.exec(ctx, s.pool, "insert_counters", named{}))
}

// placeTaken reports whether a row of a queue could not be stored because
// another one stands at its place.
func placeTaken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeUniqueViolation && pg.ConstraintName == "ready_queue_pkey"
}
