package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence/postgres/audit"
)

// olderVersions are those that are filled and migrated: the first that has all tables
// of the work, one with events as they were before history, the first with dead letters
// as they are, and the last but one.
func olderVersions(latest int) []int { return []int{4, 5, 8, latest - 1} }

// older makes the tables as they were at a version.
func older(t *testing.T, pool *pgxpool.Pool, schema string, version int) {
	t.Helper()
	exec(t, pool, "create schema "+schema)
	exec(t, pool, "create table "+schema+`.schema_version (
		version integer primary key, name text not null, applied_at timestamptz not null default clock_timestamp())`)
	files, err := filepath.Glob("sql/*.sql")
	require.NoError(t, err)
	for i, file := range files[:version] {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		exec(t, pool, strings.ReplaceAll(string(text), "{schema}", schema))
		exec(t, pool, "insert into "+schema+".schema_version (version, name) values ($1, $2)", i+1, filepath.Base(file))
	}
}

// commonColumns lists the tables that both schemas have, with the columns that both have
// of them, but the spans, of which each has its own.
const commonColumns = `select o.table_name::text, string_agg(quote_ident(o.column_name), ', ' order by o.ordinal_position),
		coalesce(max(o.column_name::text) filter (where o.is_identity = 'YES'), '')
	from information_schema.columns o join information_schema.columns n using (table_name, column_name)
		join pg_class c on c.relname = o.table_name and c.relnamespace = o.table_schema::regnamespace
	where o.table_schema = $1 and n.table_schema = $2 and c.relkind in ('r', 'p') and not c.relispartition
		and o.table_name not in ('schema_version', 'spans', 'archived_up_to')
	group by 1 order by 1`

// fill copies all rows of the newest schema, as they stand at one instant, to an older one.
func fill(t *testing.T, tx pgx.Tx, from, to string) {
	t.Helper()
	rows, err := tx.Query(t.Context(), commonColumns, to, from)
	require.NoError(t, err)
	type table struct{ name, columns, identity string }
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (found table, err error) {
		err = row.Scan(&found.name, &found.columns, &found.identity)
		return found, err
	})
	require.NoError(t, err)
	require.Greater(t, len(tables), 10)
	for _, of := range tables {
		_, err := tx.Exec(t.Context(), "delete from "+to+"."+of.name) // what a migration puts there
		require.NoError(t, err, of.name)
		_, err = tx.Exec(t.Context(), fmt.Sprintf("insert into %[1]s.%[2]s (%[3]s) overriding system value select %[3]s from %[4]s.%[2]s", to, of.name, of.columns, from))
		require.NoError(t, err, of.name)
		if of.identity == "" {
			continue
		}
		_, err = tx.Exec(t.Context(), fmt.Sprintf("select setval(pg_get_serial_sequence('%s.%s', '%s'), (select coalesce(max(%s), 0) + 1 from %[1]s.%[2]s))",
			to, of.name, of.identity, of.identity))
		require.NoError(t, err, of.name)
	}
}

// works is a program whose steps fail or hang until it is mended.
type works struct {
	engine      *troupe.Engine
	short, long *troupe.Handle[string, string]
}

// start starts the program on a schema.
func start(t *testing.T, pool *pgxpool.Pool, schema string, mended *atomic.Bool) works {
	t.Helper()
	engine, err := troupe.New(pool, troupe.Config{Schema: schema, StopGrace: time.Second, Pulse: 300 * time.Millisecond, Lease: 2 * time.Second, PoolSize: 4})
	require.NoError(t, err)
	short, err := troupe.Register(engine, troupe.Define("short", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "work", func(ctx context.Context, in string) (string, error) {
			switch {
			case mended.Load():
			case in == "fail":
				return "", troupe.Terminal(errors.New("it fails"))
			case in == "retry":
				return "", errors.New("it fails for now")
			case in == "hang", in == "cancel":
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return in + " done", nil
		}, troupe.Retry{Attempts: 3, First: time.Hour, Cap: time.Hour})
	}))
	require.NoError(t, err)
	long, err := troupe.Register(engine, troupe.Define("long", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		first := troupe.Step0(b, "first", func(_ context.Context, in string) (string, error) { return in + " first", nil })
		nap := troupe.Sleep(b, "nap", 24*time.Hour, troupe.After(first))
		return troupe.Step1(b, "last", func(_ context.Context, _, first string) (string, error) { return first + " last", nil }, first, troupe.After(nap))
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	return works{engine, short, long}
}

// populate brings runs of the program into every state.
func (w works) populate(t *testing.T, pool *pgxpool.Pool, schema string) map[string]troupe.RunID {
	t.Helper()
	runs := map[string]troupe.RunID{}
	begin := func(handle *troupe.Handle[string, string], in string, options ...troupe.TriggerOption) {
		run, err := handle.RunNoWait(t.Context(), in, options...)
		require.NoError(t, err)
		runs[in] = run.ID()
	}
	for _, in := range []string{"fail", "retry", "hang", "cancel"} {
		begin(w.short, in)
	}
	begin(w.short, "keyed", troupe.Key("once"))
	begin(w.short, "later", troupe.At(time.Now().Add(24*time.Hour)))
	begin(w.long, "sleep")
	require.NoError(t, w.engine.Cancel(t.Context(), "", runs["cancel"], "by the test"))
	want := map[string][]int16{ // of the run, and of its tasks
		"fail": {11, 11}, "retry": {3, 4}, "hang": {3, 3}, "cancel": {13, 13}, "keyed": {10, 10}, "later": {1, 1}, "sleep": {3, 1, 5, 10},
	}
	for in, states := range want {
		require.Eventually(t, func() bool {
			found := value[[]int16](t, pool, `select array_agg(state) from (
				select 0 as nth, state from `+schema+`.workflow_runs where id = $1
				union all select 1, state from `+schema+`.tasks where run_id = $1 order by 1, 2) s`, [16]byte(runs[in]))
			return slices.Equal(found, states)
		}, 30*time.Second, 10*time.Millisecond, in)
	}
	return runs
}

// goesOn requires that what had not ended ends on a schema, and what had stays.
func (w works) goesOn(t *testing.T, runs map[string]troupe.RunID, letters bool) {
	t.Helper()
	for in, want := range map[string]string{"retry": "retry done", "hang": "hang done", "keyed": "keyed done", "later": "later done"} {
		got, err := w.short.Get("", runs[in]).Await(t.Context())
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	got, err := w.long.Get("", runs["sleep"]).Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "sleep first last", got)
	_, err = w.short.Get("", runs["fail"]).Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	_, err = w.short.Get("", runs["cancel"]).Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunCanceled)
	again, err := w.short.RunNoWait(t.Context(), "keyed", troupe.Key("once"))
	require.NoError(t, err)
	require.Equal(t, runs["keyed"], again.ID(), "a key still names its run")
	if !letters {
		return
	}
	page, err := w.engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
	require.NoError(t, err)
	require.Len(t, page.Letters, 1)
	requeued, err := w.engine.DeadLetters().Requeue(t.Context(), "", page.Letters[0].ID, troupe.RequeueOptions{})
	require.NoError(t, err)
	got, err = w.short.Get("", requeued.Run).Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "fail done", got)
}

// sound requires that no promise is broken in a schema.
func sound(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, finding := range audit.Run(t.Context(), conn.Conn(), schema, time.Minute) {
		require.NoError(t, finding.Err, finding.Name)
		require.Zero(t, finding.Count, "%s: %s, for instance %s", finding.Promise, finding.Name, finding.Example)
	}
}

// Runs of an older schema are there after its migration: open ones continue, ended ones stay
// as they were. The rows are a snapshot of working pods, which are gone afterwards.
func TestRunsGoOnAfterAMigration(t *testing.T) {
	t.Parallel()
	pool := connect(t, pgtest.Database(t), func(c *pgxpool.Config) { c.MaxConns = 20 })
	latest := migrate(t, pool, "newest").Latest
	versions := olderVersions(latest)
	for _, version := range versions {
		older(t, pool, fmt.Sprintf("older%d", version), version)
	}
	before, mended := &atomic.Bool{}, &atomic.Bool{}
	mended.Store(true)
	w := start(t, pool, "newest", before)
	runs := w.populate(t, pool, "newest")
	require.NoError(t, pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		for _, version := range versions {
			fill(t, tx, "newest", fmt.Sprintf("older%d", version))
		}
		return nil
	}))
	ended, stop := context.WithCancel(t.Context())
	stop()
	_ = w.engine.Stop(ended)

	for _, version := range versions {
		t.Run(fmt.Sprintf("from %d", version), func(t *testing.T) {
			t.Parallel()
			schema := fmt.Sprintf("older%d", version)
			report := migrate(t, pool, schema)
			require.Len(t, report.Applied, latest-version)
			require.NoError(t, migrations.Check(t.Context(), pool, schema))
			sound(t, pool, schema)
			exec(t, pool, "update "+schema+".pods set expires_at = now() - interval '1 second'")
			exec(t, pool, "update "+schema+".durable_timers set wake_at = now()")
			exec(t, pool, "update "+schema+".tasks set wake_at = now() where wake_at is not null and state < 10")
			after := start(t, pool, schema, mended)
			after.goesOn(t, runs, version >= 8)
			sound(t, pool, schema)
			require.NoError(t, after.engine.Stop(context.Background()))
		})
	}
}
