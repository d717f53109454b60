package pgdev_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

// envOwner makes the test binary start a server and wait to be killed.
const envOwner = "TROUPE_TEST_OWNER_OF"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(envOwner); ok {
		server, err := pgdev.Start(context.Background(), pgdev.Options{Dir: dir, Private: true, Volatile: true})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(server.URL(""))
		select {}
	}
	os.Exit(m.Run())
}

func start(t *testing.T, options pgdev.Options) *pgdev.Server {
	t.Helper()
	if os.Getenv("TROUPE_TEST_POSTGRES") == "none" {
		t.Skip("tests on PostgreSQL are off")
	}
	options.Private = true
	server, err := pgdev.Start(t.Context(), options)
	if errors.Is(err, pgdev.ErrNoServer) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	return server
}

func ask(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var answer string
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&answer))
	return answer
}

// openDir is a folder that the server's account can enter, which t.TempDir is
// not for root.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgdev-test-") //nolint:usetesting // t.TempDir is closed to the server's account
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "server")
}

func TestServerIsSetUpForReplicationAndSettingsOverride(t *testing.T) {
	t.Parallel()
	server := start(t, pgdev.Options{Volatile: true, Settings: map[string]string{"application_name": "it's"}})
	url := server.URL("")
	require.Equal(t, "logical", ask(t, url, "show wal_level"))
	require.Equal(t, "32", ask(t, url, "show max_replication_slots"))
	require.Equal(t, "300", ask(t, url, "show max_connections"))
	require.Equal(t, "off", ask(t, url, "show fsync"))
	require.Equal(t, "it's", ask(t, url, "show application_name"))
	require.Contains(t, ask(t, server.SocketURL(""), "select coalesce(inet_server_addr()::text, 'socket')"), "socket")
	require.False(t, server.Foreign())
}

func TestKillAndRestartKeepTheDataAndTheAddress(t *testing.T) {
	t.Parallel()
	server := start(t, pgdev.Options{})
	url, err := server.CreateDatabase(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, "1", ask(t, url, "with made as (select 1 as n) select n::text from made"))

	require.NoError(t, server.Kill())
	require.NoError(t, server.Kill(), "killing twice is harmless")
	_, err = pgx.Connect(t.Context(), url)
	require.Error(t, err)
	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, url, server.URL("kept"))
	require.Equal(t, "kept", ask(t, url, "select current_database()"))

	require.NoError(t, server.Restart(t.Context()), "a graceful restart")
	again, err := server.CreateDatabase(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, url, again)
	require.NoError(t, server.DropDatabase(t.Context(), "kept"))
	require.NoError(t, server.DropDatabase(t.Context(), "kept"))
	_, err = pgx.Connect(t.Context(), url)
	require.Error(t, err)
}

func TestStopRemovesATemporaryFolderAndTheProcess(t *testing.T) {
	t.Parallel()
	server := start(t, pgdev.Options{Volatile: true})
	dir := filepath.Dir(ask(t, server.URL(""), "show data_directory"))
	pid := postmaster(t, dir)
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, server.Stop(t.Context()))
	require.NoDirExists(t, dir)
	require.False(t, runs(pid))
	require.Error(t, server.Restart(t.Context()))
}

func TestRootDropsToAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root drops its rights")
	}
	server := start(t, pgdev.Options{Volatile: true})
	dir := filepath.Dir(ask(t, server.URL(""), "show data_directory"))
	status, err := os.Stat(fmt.Sprintf("/proc/%d", postmaster(t, dir)))
	require.NoError(t, err)
	system, ok := status.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.NotZero(t, system.Uid)

	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.MkdirAll(closed, 0o700))
	_, err = pgdev.Start(t.Context(), pgdev.Options{Dir: filepath.Join(closed, "server"), Private: true})
	require.ErrorContains(t, err, "cannot enter")
}

func TestAFolderHasOneOwnerAndKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := start(t, pgdev.Options{Dir: dir, Volatile: true})
	_, err := first.CreateDatabase(t.Context(), "kept")
	require.NoError(t, err)
	_, err = pgdev.Start(t.Context(), pgdev.Options{Dir: dir, Private: true})
	require.ErrorContains(t, err, "used by another process")
	require.NoError(t, first.Stop(t.Context()))

	_, err = pgdev.Start(t.Context(), pgdev.Options{Dir: dir, Private: true, Major: 9})
	require.ErrorContains(t, err, "not 9")

	second := start(t, pgdev.Options{Dir: dir, Volatile: true})
	require.Equal(t, "kept", ask(t, second.URL("kept"), "select current_database()"))
}

func TestAForeignFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "photos"), 0o755))
	_, err := pgdev.Start(t.Context(), pgdev.Options{Dir: dir, Private: true})
	require.ErrorContains(t, err, "neither empty nor")
}

func TestTheServerEndsWithAKilledOwner(t *testing.T) {
	t.Parallel()
	start(t, pgdev.Options{Volatile: true}) // skips where there is no server
	dir := openDir(t)
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), envOwner+"="+dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, url, "postgres://")
	pid := postmaster(t, dir)

	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()
	if runtime.GOOS == "linux" { // elsewhere the next Start ends it
		require.Eventually(t, func() bool { return !runs(pid) }, 30*time.Second, 10*time.Millisecond)
	}
	next := start(t, pgdev.Options{Dir: dir, Volatile: true})
	require.Equal(t, "troupe", ask(t, next.URL(""), "select current_user::text"))
	require.NotEqual(t, pid, postmaster(t, dir))
}

// runs reports whether the process executes; a dead one may stay as a zombie
// without a command line, where no init process reaps orphans.
func runs(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0
}

func TestNoBinariesIsOneLineWithTheRemedy(t *testing.T) {
	t.Setenv(pgdev.EnvBinaries, t.TempDir())
	_, err := pgdev.Start(t.Context(), pgdev.Options{Private: true})
	require.ErrorIs(t, err, pgdev.ErrNoServer)
	require.Contains(t, err.Error(), "apt-get install postgresql")
	require.NotContains(t, err.Error(), "\n")
}

func TestAForeignServerIsUsedAndLeftAlone(t *testing.T) {
	own := start(t, pgdev.Options{Volatile: true})
	t.Setenv(pgdev.EnvDatabaseURL, own.URL(""))
	foreign, err := pgdev.Start(t.Context(), pgdev.Options{})
	require.NoError(t, err)
	require.True(t, foreign.Foreign())
	url, err := foreign.CreateDatabase(t.Context(), "mine")
	require.NoError(t, err)
	require.Equal(t, own.URL("mine"), url)
	require.Equal(t, url, foreign.SocketURL("mine"))
	require.Error(t, foreign.Kill())
	require.Error(t, foreign.Restart(t.Context()))
	require.NoError(t, foreign.Stop(t.Context()))
	require.Equal(t, "mine", ask(t, url, "select current_database()"))

	for _, bad := range []string{"host=127.0.0.1", "postgres://127.0.0.1:1/none?sslmode=disable", strings.Replace(own.URL(""), "troupe:", "unknown:", 1)} {
		_, err := pgdev.Attach(t.Context(), bad)
		require.Error(t, err, bad)
	}
}

// postmaster is the pid of the server that runs in the folder.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}
