package chaos

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// newServerYard returns a yard on a server of its own, which the test may end.
func newServerYard(t *trial, callers int, settings map[string]string) (*yard, *pgdev.Server) {
	t.Helper()
	server := pgtest.Server(t, settings)
	url, err := server.CreateDatabase(t.Context(), "chaos")
	require.NoError(t, err)
	return newYardOn(t, url, brisk(), callers), server
}

// F21: the server stops as if it crashed, and comes back, in the middle of the
// load.
func TestPostgresStopsImmediately(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F21", Name: "pg-immediate", Fault: "pg_ctl stop -m immediate under load, and start",
		Must:    "I1: what was acknowledged survives",
		Allowed: []figure{within("resumed after", 5*time.Second)},
	})
	y, server := newServerYard(r, 6, nil)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	postmaster := y.postmaster()
	for range spell(2, 5) {
		require.NoError(r, syscall.Kill(postmaster, syscall.SIGQUIT)) // what pg_ctl stop -m immediate sends
		y.until("the server has ended", patience, func() bool { return syscall.Kill(postmaster, 0) != nil })
		require.NoError(r, server.Restart(r.Context()))
		postmaster = y.postmaster()
		y.under(time.Second)
	}
	r.took("resumed after", y.resumed())
	r.note("%d times", spell(2, 5))
	y.settle()
}

// F20: the same with a fast restart.
func TestPostgresRestartsFast(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F20", Name: "pg-restart-fast", Fault: "pg_ctl restart -m fast under load",
		Must:    "I1 to I6",
		Allowed: []figure{within("resumed after", 2*time.Second)},
	})
	y, server := newServerYard(r, 6, nil)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	require.NoError(r, server.Restart(r.Context()))
	r.took("resumed after", y.resumed())
	y.settle()
}

// F06: all pods and the server are killed, and started again.
func TestEverythingIsKilled(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F06", Name: "kill-everything", Fault: "kill -9 of all pods and of the server, all started again",
		Must:    "I1 to I8, I10",
		Allowed: []figure{within("first claim after the server answers", 3*time.Second)},
	})
	y, server := newServerYard(r, 6, nil)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	for _, p := range y.alive() {
		p.signal(syscall.SIGKILL)
	}
	require.NoError(r, server.Kill())
	for _, p := range y.alive() {
		<-p.ended
	}
	require.NoError(r, server.Restart(r.Context()))
	began := y.databaseNow()
	y.start("pod-1", "pod-2", "pod-3")
	y.resumed()
	y.settle()
	const claimed = `select (extract(epoch from min(at) - $1) * 1000)::int from troupe.every_event where kind = 'started' and at > $1`
	r.took("first claim after the server answers", time.Duration(y.number(claimed, began))*time.Millisecond)
}

// F19: the engine's sessions are ended ten times a second. Afterwards its rate is that of
// a twin at the same time, on a database without faults: a machine is not equally fast for
// two minutes. (A rate before the storm, beside the same twin, would be a second figure
// with as much noise: two twins without faults differed by up to 9 % over 24 s.)
func TestBackendKillStorm(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F19", Name: "backend-kill-storm", Fault: "pg_terminate_backend of the engine's sessions, 10 a second",
		Must:    "I1 to I6; afterwards as many runs end as on pods without faults",
		Allowed: []figure{atLeast("recovered", 95, "%").inGoTest(0), atLeast("sessions ended", 20, "")},
	})
	y, twin := newYard(r, brisk(), 6), newYard(r, brisk(), 6)
	twin.dir = filepath.Join(r.dir, "twin")
	require.NoError(r, os.Mkdir(twin.dir, 0o700))
	y.each = func(s *podSpec) { s.Await = 3 * patience } // a run may wait for the end of the storm
	pods := []string{"pod-1", "pod-2", "pod-3"}
	y.start(pods...)
	twin.start(pods...)
	y.warm()
	twin.warm()
	const storm = `select count(pg_terminate_backend(pid))::int from (
		select pid from pg_stat_activity where datname = current_database() and application_name like 'troupe%' order by random() limit 1) s`
	kills := 0
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < spell(4*time.Second, 30*time.Second); <-ticks.C {
		kills += y.number(storm)
	}
	y.resumed()
	y.under(spell(time.Second, 10*time.Second)) // new sessions plan each statement a few times before they know it
	recovered := y.shareOf(twin, spell(2*time.Second, time.Minute))
	for _, p := range twin.alive() { // these are not judged
		p.kill()
	}
	r.count("sessions ended", kills)
	r.measure("recovered", math.Round(100*recovered))
	y.settle()
}

// F29: other sessions hold every connection that the server gives.
func TestConnectionsAreGone(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F29", Name: "connections-gone", Fault: "other sessions hold every connection that the server gives",
		Must:    "I13; leases are kept",
		Allowed: leasesKept(within("resumed after", 2*time.Second)),
	})
	y, _ := newServerYard(r, 4, map[string]string{"max_connections": "60", "max_wal_senders": "6"})
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	var held []*pgx.Conn
	for {
		conn, err := pgx.Connect(r.Context(), y.url)
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	require.NotEmpty(r, held)
	y.under(spell(3*time.Second, 30*time.Second))
	for _, conn := range held {
		require.NoError(r, conn.Close(context.WithoutCancel(r.Context())))
	}
	r.took("resumed after", y.resumed())
	y.countLeases(y.settle())
	r.note("%d connections held", len(held))
}

// postmaster returns the process id of the server.
func (y *yard) postmaster() int {
	y.t.Helper()
	var dir string
	y.until("the server answers", patience, func() bool {
		return y.pool.QueryRow(y.t.Context(), "show data_directory").Scan(&dir) == nil
	})
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	require.NoError(y.t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(y.t, err)
	return pid
}

const endedSQL = `select count(*)::int from troupe.every_run where state = 'completed'`

// resumed waits until runs end again, and returns how long that took.
func (y *yard) resumed() time.Duration {
	y.t.Helper()
	began := time.Now()
	ended := y.number(endedSQL)
	y.until("runs end again", patience, func() bool { return y.number(endedSQL) >= ended+10 })
	return time.Since(began)
}

// rate returns how many runs end per second.
func (y *yard) rate(over time.Duration) float64 {
	y.t.Helper()
	before := y.number(endedSQL)
	y.under(over)
	return float64(y.number(endedSQL)-before) / over.Seconds()
}

// shareOf returns how many runs end here for each that ends in another yard in
// the same time. Autovacuum comes to each database once a minute, to each at another
// time, and takes a third of its rate for some four seconds, so that a minute has
// one visit of both, and a shorter time one of either.
func (y *yard) shareOf(other *yard, over time.Duration) float64 {
	y.t.Helper()
	own, others := y.number(endedSQL), other.number(endedSQL)
	y.under(over)
	own, others = y.number(endedSQL)-own, other.number(endedSQL)-others
	require.Positive(y.t, others)
	return float64(own) / float64(others)
}
