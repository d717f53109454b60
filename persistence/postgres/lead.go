package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
)

// BumpEpoch implements persistence.Leadership.
func (s *Store) BumpEpoch(ctx context.Context, holder int64) (epoch int64, err error) {
	text, args := s.statements.bind("bump_epoch", named{"holder": holder})
	err = retry(ctx, func(ctx context.Context) error { return s.pool.QueryRow(ctx, text, args...).Scan(&epoch) })
	return epoch, err
}

// fenced runs do in a transaction that a newer leader waits for, and that an older
// one cannot make.
func (s *Store) fenced(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx) error) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("fence", named{"epoch": epoch})
		var one int
		switch err := tx.QueryRow(ctx, text, args...).Scan(&one); {
		case errors.Is(err, pgx.ErrNoRows):
			return persistence.ErrDeposed
		case err != nil:
			return err
		}
		return do(ctx, tx)
	})
}
