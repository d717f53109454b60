package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A transaction is taken by where it leads to now, at whatever address: to the database
// of the store, and to no other one of this name or with this content. The store asks
// where it is itself once, and once more when the server was started again.
func TestATriggerIsTakenInTheDatabaseOfItsStore(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	here, there := pgtest.Server(t, nil), pgtest.Server(t, nil)
	pool := func(url string, err error) *pgxpool.Pool {
		require.NoError(t, err)
		pool, err := pgxpool.New(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	k := newFixture(openSchema(t, pool(here.CreateDatabase(t.Context(), "shop")), Options{}), g)
	namesake := newFixture(openSchema(t, pool(there.CreateDatabase(t.Context(), "shop")), Options{}), g)
	k.store.Close()
	k.user.Close()
	copied := pool(here.CopyDatabase(t.Context(), "shop", "copied"))
	asked := &counter{}
	k = newFixture(openStore(t, pool(here.URL("shop"), nil), Options{Tracer: asked}), g)
	trigger := func(on *pgxpool.Pool) error {
		return k.triggerInTx(on, k.draft(g, "a", 1)[0])
	}
	refused := func(on *pgxpool.Pool) {
		err := trigger(on)
		require.ErrorIs(t, err, persistence.ErrTxRefused)
		require.NotErrorIs(t, err, persistence.ErrUnavailable)
	}
	looks := func() int {
		return len(slices.DeleteFunc(asked.take(), func(name string) bool { return name != "look_tenant" }))
	}
	for _, on := range []*pgxpool.Pool{k.user, pool(here.SocketURL("shop"), nil), k.user} {
		require.NoError(t, trigger(on))
	}
	require.Equal(t, 1, looks())
	refused(namesake.user)
	refused(copied)
	require.Zero(t, value[int](namesake.database, "select count(*) from {schema}.workflow_runs"))
	require.NoError(t, trigger(k.user))

	require.NoError(t, here.Restart(t.Context()))
	k.user.Reset()
	looks()
	require.NoError(t, trigger(k.user))
	require.Positive(t, looks())
	for range 2 {
		require.NoError(t, trigger(k.user))
	}
	require.Zero(t, looks())
	require.Equal(t, 7, value[int](k.database, "select count(*) from {schema}.workflow_runs"))
}
