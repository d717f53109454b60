package chaos

import (
	"context"
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
func newServerYard(t *testing.T, callers int) (*yard, *pgdev.Server) {
	t.Helper()
	unlessShort(t)
	server := pgtest.Server(t, nil)
	url, err := server.CreateDatabase(t.Context(), "chaos")
	require.NoError(t, err)
	return newYardOn(t, url, brisk(), callers), server
}

// F21: the server stops as if it crashed, and comes back, in the middle of the
// load.
func TestPostgresStopsImmediately(t *testing.T) {
	t.Parallel()
	y, server := newServerYard(t, 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	postmaster := y.postmaster()
	for range spell(2, 5) {
		require.NoError(t, syscall.Kill(postmaster, syscall.SIGQUIT)) // what pg_ctl stop -m immediate sends
		y.until("the server has ended", patience, func() bool { return syscall.Kill(postmaster, 0) != nil })
		require.NoError(t, server.Restart(t.Context()))
		postmaster = y.postmaster()
		y.under(time.Second)
	}
	resumed := y.resumed()
	v := y.settle()
	measured(t, "F21", "pg_ctl stop -m immediate under load, and start",
		"%d times: acked lost 0, resumed %d ms after it answered; %v", spell(2, 5), resumed.Milliseconds(), v)
}

// F20: the same with a fast restart.
func TestPostgresRestartsFast(t *testing.T) {
	t.Parallel()
	y, server := newServerYard(t, 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	require.NoError(t, server.Restart(t.Context()))
	resumed := y.resumed()
	require.Less(t, resumed, 5*time.Second)
	v := y.settle()
	measured(t, "F20", "pg_ctl restart -m fast under load", "resumed %d ms after it answered; %v", resumed.Milliseconds(), v)
}

// F06: all pods and the server are killed, and started again.
func TestEverythingIsKilled(t *testing.T) {
	t.Parallel()
	y, server := newServerYard(t, 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	for _, p := range y.alive() {
		p.signal(syscall.SIGKILL)
	}
	require.NoError(t, server.Kill())
	for _, p := range y.alive() {
		<-p.ended
	}
	require.NoError(t, server.Restart(t.Context()))
	began := time.Now()
	y.start("pod-1", "pod-2", "pod-3")
	y.resumed()
	resumed := time.Since(began)
	v := y.settle()
	measured(t, "F06", "all pods and the server killed, all started", "first runs end %d ms after the server answered; %v", resumed.Milliseconds(), v)
}

// F19: the engine's sessions are ended ten times a second.
func TestBackendKillStorm(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	before := y.rate(2 * time.Second)
	const storm = `select count(pg_terminate_backend(pid))::int from (
		select pid from pg_stat_activity where datname = current_database() and application_name like 'troupe%' order by random() limit 1) s`
	kills := 0
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < spell(4*time.Second, 30*time.Second); <-ticks.C {
		kills += y.number(storm)
	}
	y.resumed()
	after := y.rate(2 * time.Second)
	v := y.settle()
	measured(t, "F19", "pg_terminate_backend of the engine's sessions, 10 a second",
		"%d sessions; runs per second before %.0f, after %.0f; %v", kills, before, after, v)
}

// F29: somebody holds every connection that the server gives.
func TestConnectionsAreGone(t *testing.T) {
	t.Parallel()
	unlessShort(t)
	server := pgtest.Server(t, map[string]string{"max_connections": "60", "max_wal_senders": "6"})
	url, err := server.CreateDatabase(t.Context(), "chaos")
	require.NoError(t, err)
	y := newYardOn(t, url, brisk(), 4)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	var held []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	require.NotEmpty(t, held)
	y.under(spell(3*time.Second, 30*time.Second))
	for _, conn := range held {
		require.NoError(t, conn.Close(context.WithoutCancel(t.Context())))
	}
	resumed := y.resumed()
	v := y.settle()
	require.Zero(t, v.losses, "no lease ends because others hold the connections")
	measured(t, "F29", "every connection of the server held by others", "%d held, leases lost 0, runs end %d ms after; %v", len(held), resumed.Milliseconds(), v)
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

const endedSQL = `select count(*)::int from troupe.every_run where state = 10`

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
