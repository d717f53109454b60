package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// migratorVariable holds the address of the database that a process migrates.
const migratorVariable = "TROUPE_CHAOS_MIGRATE"

// TestMigrator is the process that F46 starts and kills.
func TestMigrator(t *testing.T) {
	url := os.Getenv(migratorVariable)
	if url == "" {
		t.Skip("it is started by the row F46")
	}
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
}

// migrator starts such a process.
func migrator(r *trial, url string) *exec.Cmd {
	r.Helper()
	self, err := os.Executable()
	require.NoError(r, err)
	command := exec.Command(self, "-test.run", "^TestMigrator$")
	command.Env = append(os.Environ(), migratorVariable+"="+url, envBoard+"=")
	require.NoError(r, command.Start())
	return command
}

// F46: processes migrate at once and are killed, then tables change under pods
// of this version.
func TestMigratesUnderLoad(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F46", Name: "migrate-under-load",
		Fault:    "2 processes migrate at once, one is killed, again and again; then columns are added under pods that know nothing of them",
		FullOnly: true, Must: "one applies, a rerun is clean, pods of the old version go on",
		Allowed: []figure{
			atLeast("migrations killed", 3, ""), none("versions applied twice or not"), none("applied by the rerun"),
			within("longest wait for a lock", time.Second), atLeast("runs ended after it", 30, ""),
		},
	})
	url := pgtest.Database(r)
	killed := 0
	for range spell(4, 12) {
		one, two := migrator(r, url), migrator(r, url)
		_ = pause(r.Context(), 20*time.Millisecond+rand.N(150*time.Millisecond)) // somewhere in the middle
		require.NoError(r, one.Process.Kill())
		if one.Wait() != nil {
			killed++
		}
		require.NoError(r, two.Wait(), "the other one finishes")
		require.Zero(r, ask[int](r, url, `select (count(*) - max(version))::int from troupe.schema_version`))
		if killed < 3 {
			ask[string](r, url, `drop schema troupe cascade`)
			ask[string](r, url, `drop publication if exists troupe_wake`)
		}
	}
	r.count("migrations killed", killed)
	y := newYardOn(r, url, brisk(), 6)
	r.count("versions applied twice or not", y.number(`select (count(*) - max(version))::int from troupe.schema_version`))
	report, err := migrations.Migrate(r.Context(), y.pool, migrations.DefaultSchema)
	require.NoError(r, err)
	r.count("applied by the rerun", len(report.Applied))
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	waits := y.watchWaits()
	for _, table := range []string{"workflow_runs", "tasks", "ready_queue", "pods"} {
		y.change("alter table troupe." + table + " add column next integer default 7")
		y.change("alter table troupe." + table + " alter column next set not null")
	}
	before := y.number(endedSQL)
	y.under(time.Second)
	r.took("longest wait for a lock", waits())
	r.count("runs ended after it", y.number(endedSQL)-before)
	y.settle()
}

// change alters a table as migrations do: it waits for half a second, lets the
// others pass, and tries again.
func (y *yard) change(sql string) {
	y.t.Helper()
	y.until(sql, patience, func() bool {
		_, err := y.pool.Exec(y.t.Context(), "begin; set local lock_timeout = '500ms'; "+sql+"; commit")
		if refused, ok := err.(*pgconn.PgError); ok && refused.Code == "55P03" { //nolint:errorlint // of a single statement
			_, err := y.pool.Exec(y.t.Context(), "rollback; select pg_sleep(0.1)")
			require.NoError(y.t, err)
			return false
		}
		require.NoError(y.t, err)
		return true
	})
}

// watchWaits looks, until the returned function is called, how long sessions of
// pods wait for locks, and returns the longest wait.
func (y *yard) watchWaits() func() time.Duration {
	y.t.Helper()
	ctx, stop := context.WithCancel(y.t.Context())
	found := make(chan time.Duration, 1)
	go func() {
		longest := 0
		for ctx.Err() == nil {
			var wait int
			const query = `select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart) * 1000), 0)::int
				from pg_locks l join pg_stat_activity a using (pid)
				where not l.granted and a.application_name like 'troupe%' and a.datname = current_database()`
			if y.pool.QueryRow(ctx, query).Scan(&wait) == nil {
				longest = max(longest, wait)
			}
			_ = pause(ctx, lookGap) // the loop ends by itself
		}
		found <- time.Duration(longest) * time.Millisecond
	}()
	return func() time.Duration {
		stop()
		return <-found
	}
}
