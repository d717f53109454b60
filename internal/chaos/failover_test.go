package chaos

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F40: the primary is killed, and its synchronous standby promoted. Then the old one comes
// back, and takes writes as before, while sessions end on the new one.
func TestStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F40", Name: "promote-standby",
		Fault:    "SIGKILL of the primary under load, its synchronous standby is promoted; the old primary comes back while sessions on the new one are ended",
		FullOnly: true, Must: "I1: what was acknowledged is there; terms go on; nothing is read from a standby, nor from the old primary",
		Allowed: []figure{
			within("resumed after", 10*time.Second), within("stream back after", 15*time.Second),
			atLeast("slots", 1, ""), atLeast("new terms", 1, ""), none("sessions on the standby"), none("on the old primary"),
			atLeast("sessions ended", 10, ""), none("tasks lost"),
		},
	})
	server := pgtest.Server(r, nil)
	address, err := server.CreateDatabase(r.Context(), "chaos")
	require.NoError(r, err)
	standby := startStandby(r, address)
	y := newYardOn(r, bothOf(r, address, standby), brisk(), 6)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	y.eventually("the leader reads a stream", y.streams)
	epoch := y.epoch()
	r.count("sessions on the standby", ask[int](r, standby, `select count(*)::int from pg_stat_activity where application_name like 'troupe%'`))
	require.NoError(r, server.Kill())
	y.under(2 * time.Second) // until it is noticed
	require.True(r, ask[bool](r, standby, "select pg_promote()"))
	began := time.Now()
	y.resumed()
	r.took("resumed after", time.Since(began))
	y.eventually("the leader reads a stream of the new primary", y.streams)
	r.took("stream back after", time.Since(began))
	r.count("slots", ask[int](r, standby, `select count(*)::int from pg_replication_slots where active`))
	y.oldPrimaryReturns(r, server, address, standby)
	v := y.settle()
	r.count("tasks lost", v.losses)
	r.count("new terms", y.number(`select epoch::int from troupe.leader_epoch`)-epoch)
}

// oldPrimaryReturns starts a server again that another one has followed, ends sessions on
// that one, which look for a new place, and stops the old one.
func (y *yard) oldPrimaryReturns(r *trial, old *pgdev.Server, before, now string) {
	y.t.Helper()
	require.NoError(r, old.Restart(r.Context()))
	for _, statement := range []string{"alter system set synchronous_standby_names = ''", "select pg_reload_conf()"} {
		ask[string](r, before, statement)
	}
	ended, strayed := 0, 0
	for range 3 {
		ended += ask[int](r, now, `select count(pg_terminate_backend(pid))::int from pg_stat_activity
			where application_name like 'troupe%' and random() < 0.5`)
		y.under(2 * time.Second)
		strayed = max(strayed, ask[int](r, before, `select count(*)::int from pg_stat_activity
			where application_name like 'troupe%' and backend_start < clock_timestamp() - interval '1 second'`)) // not those being refused
	}
	require.NoError(r, old.Kill())
	r.count("sessions ended", ended)
	r.count("on the old primary", strayed)
}

// streams tells whether the leader reads a replication stream of the server, and
// relays it: the other pods are too many to read one each.
func (y *yard) streams() bool {
	y.t.Helper()
	leader := y.named(y.leader())
	return leader != nil && y.stats(leader).Mode == "relay" &&
		y.number(`select count(*)::int from pg_replication_slots where database = current_database() and active`) > 0
}

// startStandby makes a synchronous standby of a server, and returns the address
// of the same database there.
func startStandby(r *trial, primary string) string {
	r.Helper()
	bin := ask[string](r, primary, `select setting from pg_config where name = 'BINDIR'`)
	data := filepath.Join(openToServers(r), "data")
	backup := asServer(r, exec.Command(filepath.Join(bin, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast",
		"-d", primary+"&application_name=standby"))
	backup.Dir = filepath.Dir(data)
	out, err := backup.CombinedOutput()
	require.NoError(r, err, "%s", out)
	port := freePort(r)
	auto, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(r, err)
	_, err = fmt.Fprintf(auto, "port = %d\nunix_socket_directories = '%s'\n", port, filepath.Dir(data))
	require.NoError(r, err)
	require.NoError(r, auto.Close())
	startPostgres(r, bin, data)
	address := withHost(r, primary, "127.0.0.1:"+strconv.Itoa(port))
	awaitAnswer(r, address)
	for _, statement := range []string{"alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"} {
		ask[string](r, primary, statement)
	}
	began := time.Now()
	for ask[int](r, primary, `select count(*)::int from pg_stat_replication where sync_state = 'sync'`) == 0 {
		require.Less(r, time.Since(began), patience, "the standby is synchronous")
		_ = pause(r.Context(), lookGap) // the loop ends by itself
	}
	return address
}

// startPostgres starts a server on a data folder, until the test ends.
func startPostgres(r *trial, bin, data string, environment ...string) {
	r.Helper()
	log, err := os.Create(filepath.Join(r.dir, filepath.Base(filepath.Dir(data))+".server.log"))
	require.NoError(r, err)
	r.Cleanup(func() { _ = log.Close() }) // the server has its own
	command := exec.Command(filepath.Join(bin, "postgres"), "-D", data)
	command.Env = append(os.Environ(), environment...)
	command.Dir, command.Stdout, command.Stderr = filepath.Dir(data), log, log
	serve(r, command, syscall.SIGQUIT) // at once: its data is not needed
}

// ask returns one value of a server, or the zero value of a statement without
// rows.
func ask[T any](r *trial, address, query string) (value T) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	require.NoError(r, err)
	defer func() { _ = conn.Close(ctx) }() // it was only asked
	rows, err := conn.Query(ctx, coded(query), pgx.QueryExecModeSimpleProtocol)
	require.NoError(r, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(r, err)
	if len(values) > 0 {
		value = values[0]
	}
	return value
}

func withHost(r *trial, address, host string) string {
	r.Helper()
	parsed, err := url.Parse(address)
	require.NoError(r, err)
	parsed.Host = host
	return parsed.String()
}

// bothOf is an address of two servers, of which the one that takes writes is
// meant.
func bothOf(r *trial, first, second string) string {
	r.Helper()
	one, err := url.Parse(first)
	require.NoError(r, err)
	two, err := url.Parse(second)
	require.NoError(r, err)
	one.Host += "," + two.Host
	one.RawQuery += "&target_session_attrs=read-write"
	return one.String()
}
