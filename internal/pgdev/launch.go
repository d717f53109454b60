package pgdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// superuser is the name of the role that owns a private server.
const superuser = "troupe"

// errLaunchAgain marks a start that failed by a race: another process took the
// port, or processes of a killed server still hold its shared memory.
var errLaunchAgain = errors.New("the port or the data was still taken")

// prepare finds the binaries and makes the data folder if it is not there.
func (s *Server) prepare(ctx context.Context) error {
	major := s.options.Major
	if present, err := dataMajor(s.folder.data()); err == nil {
		if major != 0 && major != present {
			return fmt.Errorf("%s holds data of PostgreSQL %d, not %d: remove it or choose another folder", s.folder.path, present, major)
		}
		major = present
	}
	found, err := findBinaries(ctx, major)
	if errors.Is(err, ErrNoServer) && s.options.Download {
		found, err = download(ctx)
	}
	if err != nil {
		return err
	}
	s.binaries = found
	if _, err := dataMajor(s.folder.data()); err == nil {
		return nil
	}
	return s.initialize(ctx)
}

// dataMajor is the major version that made the data folder.
func dataMajor(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// initialize runs initdb beside the data folder and renames the result, so
// that an interrupted one is never taken for data.
func (s *Server) initialize(ctx context.Context) error {
	if _, err := s.folder.secret(); err != nil {
		return err
	}
	unfinished := filepath.Join(s.folder.path, "unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished data folder: %w", err)
	}
	command := s.command(ctx, "initdb", "-D", unfinished, "-U", superuser, "--encoding=UTF8", "--locale=C",
		"--auth=scram-sha-256", "--pwfile="+s.folder.password(), "--no-sync", "--no-instructions")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(out))
	}
	if err := os.Rename(unfinished, s.folder.data()); err != nil {
		return fmt.Errorf("name the data folder: %w", err)
	}
	return nil
}

// command runs a program of the installation as the folder's owner. The
// environment's own settings for PostgreSQL are left out.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.binaries.program(name), args...)
	command.Dir = s.folder.path
	command.SysProcAttr = s.folder.owner.attributes()
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") {
			command.Env = append(command.Env, entry)
		}
	}
	return command
}

// launch starts the server and waits until it answers. The first launch takes
// a free port, later ones the same. The caller holds the lock, or is Start.
func (s *Server) launch(ctx context.Context) error {
	keepPort := s.port != 0
	var err error
	for range launchMax {
		if !keepPort {
			if err := s.choosePort(ctx); err != nil {
				return err
			}
		}
		if err = s.launchOnce(ctx); !errors.Is(err, errLaunchAgain) {
			break
		}
		if err := pause(ctx, 5*pollInterval); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("start PostgreSQL %d from %s: %w", s.binaries.major, s.binaries.dir, err)
	}
	s.log(ctx, "postgresql started")
	return nil
}

// choosePort gives the server a free port, and with it its address.
func (s *Server) choosePort(ctx context.Context) error {
	password, err := s.folder.secret()
	if err != nil {
		return err
	}
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	s.root = url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return nil
}

func (s *Server) launchOnce(ctx context.Context) error {
	configuration := filepath.Join(s.folder.data(), "postgresql.conf")
	if err := os.WriteFile(configuration, []byte(s.options.configuration(s.port, s.folder.socketDir())), privateMode); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	output, err := os.Create(s.folder.log())
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = output.Close() }() // the server has a descriptor of its own

	// The server outlives the context of the call: Stop ends it.
	command := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.folder.data())
	if command.SysProcAttr != nil {
		followParent(command.SysProcAttr)
	}
	command.Stdout, command.Stderr = output, output
	main, err := spawn(command)
	if err != nil {
		return err
	}
	if err := s.awaitAnswer(ctx, main); err != nil {
		return errors.Join(err, main.kill())
	}
	s.main = main
	return nil
}

// awaitAnswer returns once the server accepts a connection; the end of its
// process, if there is one to watch, is an error with what its log says.
func (s *Server) awaitAnswer(ctx context.Context, main *postmaster) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New("no answer in "+readyTimeout.String()))
	defer cancel()
	for {
		err := s.onMaintenance(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
		if err == nil {
			return nil
		}
		if main != nil && !main.running() {
			return s.exitError()
		}
		if !worthWaiting(err, main != nil) {
			return err
		}
		if cause := pause(ctx, pollInterval); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
}

// worthWaiting reports whether the server may answer later. A server of our own
// is waited for until it refuses our password; a foreign one only while it says
// that it is starting.
func worthWaiting(err error, ours bool) bool {
	const (
		cannotConnectNow = "57P03"
		badAuthorization = "28" // the class
	)
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return ours
	}
	return refusal.Code == cannotConnectNow || ours && !strings.HasPrefix(refusal.Code, badAuthorization)
}

// exitError says why a server that was just started has ended.
func (s *Server) exitError() error {
	text, err := os.ReadFile(s.folder.log())
	if err != nil {
		return err
	}
	for _, race := range []string{
		"Address already in use", "could not create any TCP/IP sockets",
		"pre-existing shared memory block", `lock file "postmaster.pid" already exists`,
	} {
		if bytes.Contains(text, []byte(race)) {
			return errLaunchAgain
		}
	}
	return fmt.Errorf("the server ended at once: %s", tail(text))
}

// tail is the end of a program's output, enough to see its last errors.
func tail(text []byte) string {
	const tailMax = 2000 // bytes
	return string(bytes.TrimSpace(text[max(0, len(text)-tailMax):]))
}

// freePort is a port that was free a moment ago. Another process may take it before the
// caller does.
func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("find a free port: not a TCP address"), listener.Close())
	}
	return address.Port, listener.Close()
}
