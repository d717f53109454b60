package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// The clock of the database jumps: all time is its.
func TestDatabaseClockJumps(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "CLOCK", Name: "database-clock-jumps", Fault: "the server's clock jumps an hour forward, ten times in turn, and 3 s back, under load (libfaketime)",
		FullOnly: true, Must: "I1 to I8; timers are not early by that clock",
		Allowed: []figure{within("resumed after an hour forward", 3*time.Second), within("resumed after 3 s back", 5*time.Second), none("attempts lost")},
	})
	jump, url := startFakedServer(r)
	y := newYardOn(r, url, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	before := y.databaseNow()
	jump(time.Hour)
	y.until("the clock has jumped", patience, func() bool { return y.databaseNow().Sub(before) > 59*time.Minute })
	r.took("resumed after an hour forward", y.resumed())
	y.under(spell(time.Second, 5*time.Second))
	const jumps = 10
	for n := 2; n <= jumps; n++ { // wherever between two renewals
		jump(time.Duration(n) * time.Hour)
		y.under(brisk().Lease * 7 / 6)
	}
	before = y.databaseNow()
	jump(jumps*time.Hour - 3*time.Second)
	y.until("the clock has jumped back", patience, func() bool { return y.databaseNow().Before(before) })
	r.took("resumed after 3 s back", y.resumed())
	y.under(spell(time.Second, 5*time.Second))
	r.count("attempts lost", y.number(`select count(*)::int from troupe.every_event where kind = 'lost'`))
	y.settle()
}

// CLOCK: a pod dies while the database's clock is an hour ahead. Its lease ends
// once the clock is right again, not an hour later.
func TestAPodDiesWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "CLOCK", Name: "pod-dies-while-clock-ahead", Fault: "the server's clock is an hour ahead, a pod that holds tasks is killed, the clock is put right (libfaketime)",
		FullOnly: true, Must: "I1 I3 I4 I5",
		Allowed: []figure{within("taken over after", 3*brisk().Lease), exactly("re-executed beyond what it held", 0)},
	})
	jump, url := startFakedServer(r)
	y := newYardOn(r, url, brisk(), 0)
	before := y.databaseNow()
	jump(time.Hour)
	y.until("the clock is ahead", patience, func() bool { return y.databaseNow().Sub(before) > 59*time.Minute })
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	follower := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.name != y.leader() })]
	slots := len(pods) * y.tune.Slots
	ids := y.trigger(pods[0], "hold", slots)
	y.until("every slot holds a task", patience, func() bool { return count(readLedgers(r, y.dir), "begun") == slots })
	held := len(y.holders(ids)[follower.name])
	require.Positive(r, held)
	follower.kill()
	jump(0)
	y.until("the clock is right", patience, func() bool { return y.databaseNow().Sub(before) < 59*time.Minute })
	r.took("taken over after", y.until("every task of the dead pod is taken from it", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_event where kind = 'lost'`) == held
	}))
	for _, p := range pods {
		y.letGo(p.name)
	}
	v := y.judge()
	r.count("re-executed beyond what it held", v.executions-slots-held)
}

// startFakedServer starts a server, with an empty database, whose clock differs
// from the machine's by what jump says.
func startFakedServer(r *trial) (jump func(time.Duration), url string) {
	r.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NoError(r, err)
	if len(libraries) == 0 {
		r.notInjected("libfaketime is missing (Debian: apt-get install faketime)")
	}
	bin := ask[string](r, pgtest.Database(r), `select setting from pg_config where name = 'BINDIR'`)
	dir := openToServers(r)
	data, offset, port := filepath.Join(dir, "data"), filepath.Join(dir, "offset"), freePort(r)
	initdb := asServer(r, exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "troupe", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"))
	initdb.Dir = dir
	out, err := initdb.CombinedOutput()
	require.NoError(r, err, "%s", out)
	config, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(r, err)
	_, err = fmt.Fprintf(config, "port = %d\nunix_socket_directories = '%s'\nwal_level = logical\nfsync = off\nmax_connections = 200\n", port, dir)
	require.NoError(r, err)
	require.NoError(r, config.Close())
	jump = func(by time.Duration) {
		text := fmt.Sprintf("%+d\n", int(by.Seconds()))
		require.NoError(r, os.WriteFile(offset+".new", []byte(text), 0o644))
		require.NoError(r, os.Rename(offset+".new", offset)) // at once
	}
	jump(0)
	startPostgres(r, bin, data, "LD_PRELOAD="+libraries[0], "FAKETIME_TIMESTAMP_FILE="+offset, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
	url = fmt.Sprintf("postgres://troupe@127.0.0.1:%d/postgres?sslmode=disable", port)
	awaitAnswer(r, url)
	return jump, url
}
