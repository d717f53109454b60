package chaos

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// SETBACK: a standby that was behind takes over, or a dump is put into the place
// of the database, while pods live that joined meanwhile. What was acknowledged
// since is lost; runs that are there continue, and no two pods have one number.
func TestDatabaseIsSetBack(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "SETBACK", Name: "set-back", Fault: "the database is replaced by an older state of it, which knows one of three living pods",
		Must: "I1 of what is there, I3, I4, I13",
		Allowed: []figure{
			none("pods without a number of their own"), atLeast("runs open in the older state", 1, ""), none("runs left open"),
			within("until runs of every pod end", 15*time.Second),
		},
	})
	address := pgtest.Database(r)
	y := newYardOn(r, address, brisk(), 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "doze", 20)
	dump := filepath.Join(r.dir, "dump")
	bin := ask[string](r, address, `select setting from pg_config where name = 'BINDIR'`)
	out, err := exec.Command(filepath.Join(bin, "pg_dump"), "-Fc", "-f", dump, "-d", address).CombinedOutput()
	require.NoError(r, err, "%s", out)
	older := pgtest.Database(r)
	out, err = exec.Command(filepath.Join(bin, "pg_restore"), "--exit-on-error", "-d", older, dump).CombinedOutput()
	require.NoError(r, err, "%s", out)
	r.count("runs open in the older state", ask[int](r, older, openSQL))

	pods = append(pods, y.start("pod-2")...)
	pods = append(pods, y.start("pod-3")...)
	y.trigger(pods[1], "doze", 20)
	// The last one joins again before the second one hears of anything: a counter that
	// continues from the older state would give it the second one's number.
	pods[1].signal(syscall.SIGSTOP)
	setBack(r, address, older)
	const joined = `select count(distinct name)::int from troupe.pods where name = any($1) and not dead and expires_at > clock_timestamp()`
	took := y.until("the last pod has joined", patience, func() bool { return y.number(joined, []string{"pod-3"}) == 1 })
	pods[1].signal(syscall.SIGCONT)
	began := time.Now()
	y.until("every pod has joined", patience, func() bool { return y.number(joined, []string{"pod-1", "pod-2", "pod-3"}) == len(pods) })
	for _, p := range pods {
		y.awaitReady(p)
		y.trigger(p, "diamond", 20)
	}
	y.until("every run has ended", patience, func() bool { return y.number(openSQL) == 0 })
	r.took("until runs of every pod end", took+time.Since(began))
	r.count("pods without a number of their own", len(pods)-y.number(joined, []string{"pod-1", "pod-2", "pod-3"}))
	r.count("runs left open", y.number(openSQL))
	y.judgeTables()
	y.judgeResources()
	r.judged = true // what was acknowledged since the older state is gone
}

// setBack puts one database into the place of another.
func setBack(r *trial, address, older string) {
	r.Helper()
	name := func(address string) string {
		parsed, err := url.Parse(address)
		require.NoError(r, err)
		return strings.TrimPrefix(parsed.Path, "/")
	}
	parsed, err := url.Parse(address)
	require.NoError(r, err)
	parsed.Path = "/postgres"
	say := func(statement string) { ask[string](r, parsed.String(), statement) }
	now, then := name(address), name(older)
	say(`alter database ` + now + ` allow_connections false`)
	say(`select string_agg(pg_terminate_backend(pid, 5000)::text, '') from pg_stat_activity where datname = '` + now + `'`)
	say(`alter database ` + now + ` rename to ` + now + `_gone`)
	say(`alter database ` + then + ` rename to ` + now)
	say(`alter database ` + now + `_gone rename to ` + then) // its owner drops it
}
