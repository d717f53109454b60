package features_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// TriggerTx stores a run in the transaction that stores whatever it is about:
// both exist, or neither.
func TestTriggerTx(t *testing.T) {
	onPostgres(t, double("in-tx"), func(t *testing.T, pool *pgxpool.Pool, handle *troupe.Handle[int, int]) {
		ctx := t.Context()
		_, err := pool.Exec(ctx, `create table orders (id int primary key)`)
		require.NoError(t, err)

		var run *troupe.Run[int]
		place := func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `insert into orders values (1)`); err != nil {
				return err
			}
			var err error
			if run, err = handle.TriggerTx(ctx, tx, 21); err != nil {
				return err
			}
			_, err = run.Await(ctx)
			require.ErrorIs(t, err, troupe.ErrRunNotFound, "no other transaction sees it before the commit")
			return nil
		}
		require.NoError(t, pgx.BeginFunc(ctx, pool, place))
		got, err := run.Await(ctx)
		require.NoError(t, err)
		require.Equal(t, 42, got)

		// The same order again: its insert fails, so its run does not exist.
		require.Error(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := handle.TriggerTx(ctx, tx, 22); err != nil {
				return err
			}
			return place(tx)
		}))
	})
}

// What a step with InTx writes through Tx commits together with its
// completion: exactly once, whatever crashes when.
func TestInTx(t *testing.T) {
	var pool *pgxpool.Pool
	book := func(ctx context.Context, cents int) (int, error) {
		tx := troupe.Tx(ctx)
		if _, err := tx.Exec(ctx, `update accounts set cents = cents + $1 where id = 1`, cents); err != nil {
			return 0, err
		}
		if troupe.Task(ctx).Attempt == 1 {
			return 0, errors.New("fails after its write, which is rolled back")
		}
		var balance int
		err := tx.QueryRow(ctx, `select cents from accounts where id = 1`).Scan(&balance)
		return balance, err
	}
	w := troupe.Define("book", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "book", book, troupe.InTx(), troupe.Retry{Attempts: 3, First: 1})
	})
	onPostgres(t, w, func(t *testing.T, p *pgxpool.Pool, handle *troupe.Handle[int, int]) {
		pool = p
		_, err := pool.Exec(t.Context(), `create table accounts as select 1 as id, 100 as cents`)
		require.NoError(t, err)

		balance, err := handle.Run(t.Context(), 50)
		require.NoError(t, err)
		require.Equal(t, 150, balance, "booked once, although it was tried twice")
	})
}
