package wire

import (
	"context"
	"testing"
	"time"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// opened returns a connection that stays open until end.
func opened(t *testing.T) (conn open, end func()) {
	t.Helper()
	made, done := &pgconn.PgConn{}, make(chan struct{})
	t.Cleanup(func() { require.NotNil(t, made) })
	return open{weak.Make(made), done}, func() { close(done) }
}

func TestAnOldPrimaryIsRefused(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Unix(1000, 0))
	l := &Lineage{clock: now}
	another := func() open { conn, _ := opened(t); return conn }
	require.NoError(t, l.join(standing{"a", 1}, another()))
	first, endFirst := opened(t)
	second, endSecond := opened(t)
	require.NoError(t, l.join(standing{"a", 2}, first), "a standby was promoted")
	require.NoError(t, l.join(standing{"a", 2}, second))
	err := l.join(standing{"a", 1}, another())
	require.ErrorContains(t, err, "the server is of timeline 1, and another one of these addresses of timeline 2")
	var refused RefusedError
	require.ErrorAs(t, err, &refused)
	endFirst()
	now.Advance(time.Hour)
	require.Error(t, l.join(standing{"a", 1}, another()), "the second is open")
	endSecond()
	require.Error(t, l.join(standing{"a", 1}, another()), "the newer one may be away for a moment")
	now.Advance(lineageKept - 1)
	require.Error(t, l.join(standing{"a", 1}, another()))
	third, endThird := opened(t)
	require.NoError(t, l.join(standing{"a", 2}, third), "it is back")
	endThird()
	now.Advance(lineageKept)
	require.Error(t, l.join(standing{"a", 1}, another()), "it is away anew")
	now.Advance(lineageKept)
	require.NoError(t, l.join(standing{"a", 1}, another()), "an older state was restored")
	require.NoError(t, l.join(standing{"b", 1}, another()), "of others nothing is known")
	require.NoError(t, l.join(standing{"a", 7}, another()))
}

// A connection of the embedder's is queried in its transaction, which continues.
func TestAnOldPrimaryIsRefusedToTheEmbedder(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	connect := func(l *Lineage) *pgx.Conn {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		if l != nil {
			Prepare(config, l)
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	admit := func(l *Lineage, conn *pgx.Conn) error {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		refused := l.Admit(t.Context(), conn.PgConn())
		_, err = tx.Exec(t.Context(), "select 1")
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		return refused
	}
	l, theirs := NewLineage(), connect(nil)
	require.NoError(t, (*Lineage)(nil).Admit(t.Context(), theirs.PgConn()))
	require.NoError(t, admit(l, theirs), "nothing is known")
	own := connect(l)
	require.NotZero(t, l.timeline)
	require.NoError(t, admit(l, theirs))
	newer, _ := opened(t)
	require.NoError(t, l.join(standing{l.system, l.timeline + 1}, newer), "a standby of it was promoted")
	require.ErrorContains(t, admit(l, theirs), "it was the primary before")
	require.ErrorContains(t, admit(l, own), "it was the primary before")

	_, err := own.Exec(t.Context(), "revoke execute on function pg_control_system() from public; create role restricted; set role restricted")
	require.NoError(t, err)
	fresh := connect(nil)
	_, err = fresh.Exec(t.Context(), "set role restricted")
	require.NoError(t, err)
	require.NoError(t, admit(l, fresh), "it may not be asked")
	restricted, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	restricted.RuntimeParams["role"] = "restricted"
	Prepare(restricted, NewLineage())
	conn, err := pgx.ConnectConfig(t.Context(), restricted)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	restricted.RuntimeParams["default_transaction_read_only"] = "on"
	_, err = pgx.ConnectConfig(t.Context(), restricted)
	require.ErrorContains(t, err, "takes no writes")
	_, err = fresh.Exec(t.Context(), "reset role; grant execute on function pg_control_system() to public; drop role restricted")
	require.NoError(t, err)
}
