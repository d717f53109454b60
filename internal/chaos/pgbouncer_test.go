package chaos

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// bouncerSessions is how many sessions of the server three pods have together
// behind PgBouncer, besides the direct ones.
const bouncerSessions = 8

// F44: everything but what needs a session of its own goes through PgBouncer in
// transaction mode.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F44", Name: "pgbouncer-tx", Fault: "3 pods behind PgBouncer in transaction mode, but for listener, lease, leader and stream",
		Must: "I1 to I8",
		Allowed: []figure{
			none("errors"), atMost("sessions of the server", bouncerSessions, ""), atLeast("runs per second", 5, "").inGoTest(0),
		},
	})
	direct := pgtest.Database(r)
	proxied := startBouncer(r, direct)
	y := newYardOn(r, direct, brisk(), 6)
	pool, err := pgxpool.New(r.Context(), proxied)
	require.NoError(r, err)
	r.Cleanup(pool.Close)
	unaware, err := troupe.New(pool, troupe.Config{})
	require.NoError(r, err)
	require.ErrorContains(r, unaware.Start(r.Context()), "DirectURL", "without a direct address it says what is missing")
	y.url, y.each = proxied, func(s *podSpec) { s.Direct = direct }
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	r.measure("runs per second", math.Round(y.rate(spell(3*time.Second, 15*time.Second))))
	r.count("sessions of the server", bouncerServers(r, proxied))
	r.count("errors", y.logged("store call failed")+y.logged("level=ERROR"))
	y.settle()
}

// bouncerServers asks PgBouncer how many sessions of servers it has.
func bouncerServers(r *trial, proxied string) int {
	r.Helper()
	console, err := pgx.ParseConfig(proxied)
	require.NoError(r, err)
	console.Database = "pgbouncer"
	conn, err := pgx.ConnectConfig(r.Context(), console)
	require.NoError(r, err)
	defer func() { _ = conn.Close(r.Context()) }() // it was only asked
	results, err := conn.PgConn().Exec(r.Context(), "show servers").ReadAll()
	require.NoError(r, err)
	return len(results[0].Rows)
}

// logged counts the lines with a text in the logs of all pods.
func (y *yard) logged(text string) int {
	y.t.Helper()
	paths, err := filepath.Glob(filepath.Join(y.dir, "*.log"))
	require.NoError(y.t, err)
	n := 0
	for _, path := range paths {
		log, err := os.ReadFile(path)
		require.NoError(y.t, err)
		n += strings.Count(string(log), text)
	}
	return n
}

// startBouncer starts PgBouncer before a database, and returns the address that
// it takes clients at.
func startBouncer(r *trial, to string) string {
	r.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // not in the path of ordinary users
	}
	if err != nil {
		r.notInjected("pgbouncer is missing (Debian: apt-get install pgbouncer)")
	}
	target, err := pgx.ParseConfig(to)
	require.NoError(r, err)
	port := freePort(r)
	dir := openToServers(r)
	file := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_idle_timeout = 1
admin_users = %s
logfile = %s
`, target.Host, target.Port, target.User, target.Password, port, bouncerSessions, target.User, filepath.Join(dir, "pgbouncer.log"))
	require.NoError(r, os.WriteFile(file, []byte(text), 0o644))
	serve(r, exec.Command(program, file), syscall.SIGTERM)
	address, err := url.Parse(to)
	require.NoError(r, err)
	address.Host = "127.0.0.1:" + strconv.Itoa(port)
	query := address.Query()
	query.Set("default_query_exec_mode", "cache_describe") // for the pool of the embedder
	address.RawQuery = query.Encode()
	awaitAnswer(r, address.String())
	return address.String()
}
