package chaos

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// asServer makes a command run as a user that PostgreSQL accepts: it refuses
// root.
func asServer(r *trial, command *exec.Cmd) *exec.Cmd {
	r.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return command
	}
	uid, gid := serverUser(r)
	command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return command
}

// serve starts a server that ends with the row, by this signal, or with the
// tests, whatever ends them. The kernel ties a child to the thread that started
// it, and the runtime ends threads: this one lives as long as the child.
func serve(r *trial, command *exec.Cmd, end syscall.Signal) {
	r.Helper()
	asServer(r, command).SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // how it ended is in its log
		}
	}()
	require.NoError(r, <-started)
	r.Cleanup(func() {
		select {
		case <-ended:
			r.Errorf("%s ended before the row did", filepath.Base(command.Path))
		default:
		}
		_ = command.Process.Signal(end) // it may have ended this moment
		<-ended
	})
}

// serverUser is the user of servers where the test is root.
func serverUser(r *trial) (uid, gid int) {
	r.Helper()
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	require.NoError(r, err)
	uid, err = strconv.Atoi(found.Uid)
	require.NoError(r, err)
	gid, err = strconv.Atoi(found.Gid)
	require.NoError(r, err)
	return uid, gid
}

// openToServers returns a new folder that such a command may use.
func openToServers(r *trial) string {
	r.Helper()
	dir, err := os.MkdirTemp("/tmp", "chaos-server-") // the folders of tests are closed to other users
	require.NoError(r, err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) }) // of the system's temporary folder
	if os.Geteuid() == 0 {
		uid, gid := serverUser(r)
		require.NoError(r, os.Chown(dir, uid, gid))
	}
	return dir
}

// freePort is a port that was free a moment ago.
func freePort(r *trial) int {
	r.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(r, ok)
	require.NoError(r, listener.Close())
	return address.Port
}

// awaitAnswer waits until a server answers.
func awaitAnswer(r *trial, url string) {
	r.Helper()
	began := time.Now()
	for {
		err := answers(r.Context(), url)
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			r.Fatalf("no answer in %v: %v", patience, err)
		}
		_ = pause(r.Context(), 50*time.Millisecond) // the loop ends by itself
	}
}

func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only asked
	_, err = conn.Exec(ctx, "select 1")
	return err
}
