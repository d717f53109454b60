package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F47: a dump that was taken under load is restored somewhere else, and pods go
// on with it.
func TestDumpIsRestored(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F47", Name: "dump-restore", Fault: "pg_dump under load, restored into another database, where pods start",
		Must:    "I3; what had completed is not executed again",
		Allowed: []figure{none("completed steps executed again"), atLeast("runs open in the dump", 1, ""), none("runs left open")},
	})
	url := pgtest.Database(r)
	bin := ask[string](r, url, `select setting from pg_config where name = 'BINDIR'`)
	first := newYardOn(r, url, brisk(), 6)
	first.start("pod-1", "pod-2", "pod-3")
	first.warm()
	dump := filepath.Join(r.dir, "dump")
	out, err := exec.Command(filepath.Join(bin, "pg_dump"), "-Fc", "-f", dump, "-d", url).CombinedOutput()
	require.NoError(r, err, "%s", out)
	first.settle()

	copied := pgtest.Database(r)
	out, err = exec.Command(filepath.Join(bin, "pg_restore"), "--exit-on-error", "-d", copied, dump).CombinedOutput()
	require.NoError(r, err, "%s", out)
	second := yardOnCopy(r, copied)
	r.count("runs open in the dump", second.number(openSQL))
	done := second.completed()
	second.start("pod-1", "pod-2")
	second.until("every run of the dump has ended", patience, func() bool { return second.number(openSQL) == 0 })
	again := 0
	for _, e := range readLedgers(t, second.dir) {
		if e.what == "begun" && done[taskKey{e.run, e.detail}] {
			again++
		}
	}
	r.count("completed steps executed again", again)
	r.count("runs left open", second.number(openSQL))
	second.judgeTables()
	second.judgeResources()
}

// yardOnCopy returns a yard on a database that has everything already. Its
// ledgers are its own.
func yardOnCopy(r *trial, url string) *yard {
	r.Helper()
	pool, err := pgxpool.New(r.Context(), url)
	require.NoError(r, err)
	r.Cleanup(pool.Close)
	y := &yard{t: r, url: url, dir: filepath.Join(r.dir, "copy"), pool: pool, tune: brisk(), pods: map[string]*pod{}}
	require.NoError(r, os.Mkdir(y.dir, 0o700))
	r.Cleanup(func() {
		for _, p := range y.alive() {
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
	})
	return y
}

// completed returns the tasks that have completed.
func (y *yard) completed() map[taskKey]bool {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), coded(`select t.run_id::text, s.name from troupe.every_task t
		join troupe.every_run r on r.id = t.run_id
		join troupe.definition_steps s on s.definition = r.definition and s.step = t.step where t.state = 'completed'`))
	require.NoError(y.t, err)
	done := map[taskKey]bool{}
	var key taskKey
	_, err = pgx.ForEachRow(rows, []any{&key.run, &key.step}, func() error {
		done[key] = true
		return nil
	})
	require.NoError(y.t, err)
	require.NotEmpty(y.t, done)
	return done
}
