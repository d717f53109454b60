package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// What breaks a step's transaction from outside is not the step's failure: it
// is rolled back, and made again. What the step itself does to it is.
func TestAStepAnswersForItsOwnTransactionOnly(t *testing.T) {
	broken := errors.New("the function gave up")
	cases := map[string]struct {
		fn   func(k *fixture, ctx context.Context, tx pgx.Tx) error
		ours bool // it is not the step's failure
	}{
		"its session is ended": {func(k *fixture, ctx context.Context, tx pgx.Tx) error {
			k.endSession(ctx, tx)
			_, err := tx.Exec(ctx, "select 1")
			return err
		}, true},
		"its session is ended, and it says so in its own words": {func(k *fixture, ctx context.Context, tx pgx.Tx) error {
			k.endSession(ctx, tx)
			if _, err := tx.Exec(ctx, "select 1"); err != nil {
				return broken
			}
			return nil
		}, true},
		"it is ended before the function returns": {func(k *fixture, ctx context.Context, tx pgx.Tx) error {
			k.endSession(ctx, tx)
			return nil
		}, true},
		"it changes its role to one without rights": {func(k *fixture, ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `do $$ begin
				create role nobody_of_troupe; exception when duplicate_object then null; end $$; set local role nobody_of_troupe`)
			return err
		}, false},
		"a deadline of its own": {func(_ *fixture, ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			_, err := tx.Exec(ctx, "select pg_sleep(10)")
			return err
		}, false},
		"a table it may not read": {func(_ *fixture, ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select * from no_such_table")
			return err
		}, false},
		"its own failure": {func(*fixture, context.Context, pgx.Tx) error { return broken }, false},
	}
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Minute)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k.start(storetest.Single(), "tenant", 1)
			grants := k.claim(pod, 1)
			require.Len(t, grants, 1)
			record := k.completion(pod, grants...)
			transition := record.Transitions[0]
			record.Transitions = nil
			_, err := k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
				return transition, c.fn(k, ctx, stepTx(tx))
			})
			require.Error(t, err)
			require.Equal(t, c.ours, errors.Is(err, persistence.ErrUnavailable), "%v", err)
			k.complete(pod, grants...) // the task is still this pod's
			row, err := k.store.Run(k.ctx, "", grants[0].Task.Run)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Completed, row.State)
		})
	}
}

// endSession ends the session of a transaction.
func (k *fixture) endSession(ctx context.Context, tx pgx.Tx) {
	ended := false
	require.NoError(k.t, k.user.QueryRow(ctx, "select pg_terminate_backend($1, 5000)", int32(tx.Conn().PgConn().PID())).Scan(&ended))
	require.True(k.t, ended)
}

// RESET ALL takes the mark of a step's transaction with it. It is the same one.
func TestAStepThatResetsAllSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, refused string }{
		"in its transaction":                  {"reset all", ""},
		"in another":                          {"commit; begin; reset all", persistence.ErrTxEnded.Error()},
		"and takes a role that may not write": {"create role troupe_of_a_reset; set local role troupe_of_a_reset; reset all", steptx.ErrTxRole.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(openDatabase(t, Options{}), storetest.Single())
			_, err := k.step(k.join(time.Minute), func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, c.statement)
				return err
			})
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
		})
	}
}
