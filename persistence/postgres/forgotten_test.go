package postgres

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// newForgetfulFixture is a fixture whose user's pool, of so many connections, runs a statement on
// each that is given back to it, while on is set.
func newForgetfulFixture(t *testing.T, connections int32, statement string) (k *fixture, on *atomic.Bool) {
	t.Helper()
	on = &atomic.Bool{}
	return newFixture(openChanged(t, func(config *pgxpool.Config) {
		config.MaxConns = connections
		config.AfterRelease = func(conn *pgx.Conn) bool {
			if !on.Load() {
				return true
			}
			_, err := conn.Exec(context.Background(), statement)
			return err == nil
		}
	}), storetest.Single()), on
}

// A pool that resets its sessions with discard all, which pgx does not learn of, costs
// steps a repetition now and then, and no attempt.
func TestAPoolWhoseSessionsAreReset(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"wholly":             "discard all",
		"and used afterward": "discard all; prepare theirs as select 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, on := newForgetfulFixture(t, 2, statement)
			pod := k.join(time.Hour)
			calls := 0
			step := func(context.Context, pgx.Tx) error { calls++; return nil }
			for range 4 { // the statements are prepared
				_, err := k.step(pod, step)
				require.NoError(t, err)
			}
			on.Store(true)
			calls = 0
			const steps = 20
			for range steps {
				_, err := k.step(pod, step)
				require.NoError(t, err)
			}
			if statement == "discard all" {
				require.LessOrEqual(t, calls, steps+2, "the first on each connection")
			}
		})
	}
}

// A step that deallocates what is prepared does itself no harm.
func TestAStepThatDeallocates(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	for range 5 {
		_, err := k.step(pod, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "deallocate all")
			return err
		})
		require.NoError(t, err)
	}
}

// A trigger in a transaction of a session that was reset fails with the remedy, and the
// next one succeeds.
func TestATriggerInASessionThatWasReset(t *testing.T) {
	t.Parallel()
	k, on := newForgetfulFixture(t, 1, "discard all")
	on.Store(true)
	trigger := func() error {
		return k.triggerInTx(k.user, k.draft(storetest.Single(), "tenant", 1)[0])
	}
	require.NoError(t, trigger()) // its session is reset afterwards
	err := trigger()
	require.ErrorIs(t, err, persistence.ErrConflict)
	require.ErrorContains(t, err, "default_query_exec_mode=cache_describe")
	for range 5 {
		require.NoError(t, trigger())
	}
}
