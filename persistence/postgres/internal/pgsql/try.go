package pgsql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
)

// Try runs do in a transaction that is rolled back.
func (d *DB) Try(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, d.Conns, func(tx pgx.Tx) error {
			if err := do(ctx, tx); err != nil {
				return err
			}
			return pgerr.ErrTrial
		})
	})
	if errors.Is(err, pgerr.ErrTrial) {
		return nil
	}
	return err
}
