package postgres

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// Nothing is acknowledged that a synchronous standby does not have: neither to a second call
// after the server gave up waiting and the rows are visible, nor to another caller with the
// same key.
func TestNothingIsAcknowledgedThatNoStandbyHas(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "standby")
	require.NoError(t, err)
	user, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	g := storetest.Chain(2)
	k := newFixture(openSchema(t, user, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 2)
	grants := k.claim(pod, 2)

	plain, keyed := k.draft(g, "a", 1), k.draft(g, "a", 1)
	keyed[0].Key = "key"
	another := k.draft(g, "a", 1)
	another[0].Key = "key"
	record, cancel := k.completion(pod, grants[0]), persistence.Cancel{Run: grants[1].Task.Run, Tenant: "a", By: "test"}
	claim := k.request(pod, 1)
	trigger := func(list []persistence.Trigger) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.store.TriggerRuns(ctx, list, persistence.GrantRequest{})
			return err
		}
	}
	calls := map[string]func(ctx context.Context) error{
		"plain": trigger(plain), "keyed": trigger(keyed),
		"record": func(ctx context.Context) error { _, err := k.store.RecordTransitions(ctx, record); return err },
		"cancel": func(ctx context.Context) error { _, err := k.store.CancelRun(ctx, cancel); return err },
		"claim":  func(ctx context.Context) error { _, err := k.store.ClaimTasks(ctx, claim); return err },
	}
	order := []string{"plain", "keyed", "record", "cancel", "claim"}
	k.standbys("absent")
	unanswered := func(name string, call func(ctx context.Context) error) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer stop()
		require.ErrorIs(t, call(ctx), persistence.ErrUnavailable, name)
	}
	require.Eventually(t, func() bool {
		for _, name := range order { // a busy server may not have come to it
			unanswered(name, calls[name])
		}
		return value[int](k.database, `select count(*) from {schema}.workflow_runs where id = any($1)`, []any{plain[0].Run, keyed[0].Run}) == 2
	}, 2*time.Minute, 10*time.Millisecond, "the server gave up waiting")
	for _, name := range order {
		unanswered(name+" again", calls[name])
	}
	unanswered("the same key", trigger(another))
	unanswered("the same key in a transaction", func(ctx context.Context) error {
		return pgerr.Translate(pgx.BeginFunc(ctx, user, func(tx pgx.Tx) error {
			_, err := k.store.TriggerInTx(ctx, tx, another[0])
			return err
		}))
	})

	k.standbys("")
	for _, name := range order {
		require.NoError(t, calls[name](t.Context()), name)
	}
	require.Equal(t, persistence.Existing, k.ask(another...)[0].Result)
}

// standbys names those that commits wait for, and returns once the server's processes
// have heard of it, one after the other.
func (k *fixture) standbys(names string) {
	k.t.Helper()
	for _, sql := range []string{"alter system set synchronous_standby_names = '" + names + "'", "select pg_reload_conf()"} {
		_, err := k.user.Exec(k.ctx, sql)
		require.NoError(k.t, err)
	}
	require.Eventually(k.t, func() bool {
		ctx, stop := context.WithTimeout(k.ctx, 300*time.Millisecond)
		defer stop()
		_, err := k.user.Exec(ctx, "select pg_logical_emit_message(true, 'test', '')")
		return (err != nil) == (names != "")
	}, 30*time.Second, 10*time.Millisecond)
}

// A standby that a proxy has put in the place of the server takes no writes: it refuses to
// begin to, with the code of what no server can do.
func TestAStandbyCannotBeginToWrite(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	var data string
	require.NoError(t, conn.QueryRow(t.Context(), "select current_setting('data_directory')").Scan(&data))
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600))
	require.NoError(t, server.Restart(t.Context()))
	conn, err = pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), (&steptx.Steps{DB: &pgsql.DB{Schema: "troupe"}}).BeginStep(&persistence.Record{}))
	require.ErrorIs(t, pgerr.Translate(err), persistence.ErrReadOnly)
	require.NoError(t, conn.Close(t.Context()))
}
