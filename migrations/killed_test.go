package migrations_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// strike harms a connection when it is about to send its n-th statement.
type strike struct {
	n    int
	seen int
	harm func(conn *pgx.Conn)
}

func (s *strike) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if s.seen++; s.seen == s.n {
		s.harm(conn)
	}
	return ctx
}

func (s *strike) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// whole requires that of each file all or nothing is there, as status says.
func whole(t *testing.T, pool *pgxpool.Pool, schema string, tablesAt []int) {
	t.Helper()
	report, err := migrations.Status(t.Context(), pool, schema)
	require.NoError(t, err)
	const tables = `select count(*) from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r' and relname <> 'schema_version'`
	require.Equal(t, tablesAt[report.Version], value[int](t, pool, tables, schema), "tables at version %d", report.Version)
	require.Len(t, report.Pending, report.Latest-report.Version)
}

// tablesAt returns how many tables there are at each version: a database is
// migrated and, from its end, each file's transaction found by the tables' xmin.
func tablesAt(t *testing.T, pool *pgxpool.Pool, schema string) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), fmt.Sprintf(`select count(c.oid) from %[1]s.schema_version v
		left join pg_class c on c.relnamespace = '%[1]s'::regnamespace and relkind = 'r' and relname <> 'schema_version'
			and (select xmin::text::bigint from pg_attribute where attrelid = c.oid and attnum = 1) <= v.xmin::text::bigint
		group by v.version order by v.version`, schema))
	require.NoError(t, err)
	counts, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return append([]int{0}, counts...)
}

// A migration that is stopped before any one of its statements leaves nothing
// half done, and the next one finishes it. `make test` tries every fifth.
func TestAMigrationThatIsKilledAnywhereIsResumed(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(killer *pgxpool.Pool, cancel context.CancelFunc, victim *pgx.Conn){
		"context canceled": func(_ *pgxpool.Pool, cancel context.CancelFunc, _ *pgx.Conn) { cancel() },
		"backend terminated": func(killer *pgxpool.Pool, _ context.CancelFunc, victim *pgx.Conn) {
			// That it failed would be seen: the migration succeeded.
			_, _ = killer.Exec(context.Background(), "select pg_terminate_backend($1, 5000)", victim.PgConn().PID())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Database(t)
			pool := connect(t, address)
			migrate(t, pool, "reference")
			want, tables := describe(t, pool, "reference"), tablesAt(t, pool, "reference")
			finished, struck, stride := false, 0, pgtest.Scale(5, 1)
			for n := 1; !finished; n += stride {
				schema := fmt.Sprintf("s%d", n)
				ctx, cancel := context.WithCancel(t.Context())
				tracer := &strike{n: n, harm: func(conn *pgx.Conn) { harm(pool, cancel, conn) }}
				victim := connect(t, address, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
				_, err := migrations.Migrate(ctx, victim, schema)
				cancel()
				victim.Close()
				finished = tracer.seen < n
				require.Equal(t, finished, err == nil, "statement %d: %v", n, err)
				if !finished {
					struck++
				}
				whole(t, pool, schema, tables)
				require.Empty(t, migrate(t, pool, schema).Publication)
				require.Equal(t, renamed(want, "reference", schema), describe(t, pool, schema))
				exec(t, pool, "drop schema "+schema+" cascade; drop publication "+migrations.Publication(schema))
			}
			require.Greater(t, struck*stride, 30)
		})
	}
}

// The same with the server's end of the connection dying inside a file, at
// each table in turn, or in `make test` at every fourth.
func TestAFileThatIsKilledInsideIsNotHalfApplied(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	migrate(t, pool, "reference")
	want, tables := describe(t, pool, "reference"), tablesAt(t, pool, "reference")
	rows, err := pool.Query(t.Context(), `select relname from pg_class where relnamespace = 'reference'::regnamespace and relkind = 'r'
		and relname <> 'task_events_kept'`) // which was made under another name
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for i, name := range names {
		if i%pgtest.Scale(4, 1) != 0 {
			continue
		}
		schema := fmt.Sprintf("s%d", i)
		exec(t, pool, fmt.Sprintf(`create function die() returns event_trigger language plpgsql as $$ begin
				if exists (select from pg_event_trigger_ddl_commands() where object_identity = '%s.%s') then
					perform pg_terminate_backend(pg_backend_pid());
				end if;
			end $$;
			create event trigger die on ddl_command_end when tag in ('CREATE TABLE') execute function die()`, schema, name))
		_, err := migrations.Migrate(t.Context(), pool, schema)
		require.Error(t, err, name)
		exec(t, pool, "drop event trigger die; drop function die")
		whole(t, pool, schema, tables)
		require.Empty(t, migrate(t, pool, schema).Publication)
		require.Equal(t, renamed(want, "reference", schema), describe(t, pool, schema))
	}
}

// freeze starts a migration that stops in the middle, under the lock, until the
// returned function lets it end.
func freeze(t *testing.T, address, schema string) (thaw func() error) {
	t.Helper()
	frozen, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	// Looked at in 4 statements; then begin, settings and lock.
	tracer := &strike{n: 8, harm: func(*pgx.Conn) { close(frozen); <-release }}
	victim := connect(t, address, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	go func() {
		_, err := migrations.Migrate(t.Context(), victim, schema)
		done <- err
	}()
	<-frozen
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let) // or closing the pool would wait for it
	require.Equal(t, 1, value[int](t, connect(t, address), `select count(*) from pg_locks where locktype = 'advisory'
		and database = (select oid from pg_database where datname = current_database())`), "it froze under the lock")
	return func() error { let(); return <-done }
}

// A process that is frozen in the middle holds the lock: the next one says so.
func TestAMigrationThatHangsIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool := connect(t, address)
	thaw := freeze(t, address, schema)

	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := migrations.Migrate(impatient, pool, schema)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	if pgtest.Full() { // ten seconds
		_, err = migrations.Migrate(t.Context(), pool, schema)
		require.ErrorContains(t, err, "wait for another migration of this schema")
		require.ErrorContains(t, err, "end its transaction")
	}
	require.NoError(t, thaw())
	require.Empty(t, migrate(t, pool, schema).Applied)
}
