package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL to use: one that Start started, or a foreign one.
// Safe for concurrent use.
type Server struct {
	options  Options
	root     url.URL // of the maintenance database
	binaries binaries
	folder   *folder // nil for a foreign server

	mu   sync.Mutex
	port int
	main *postmaster // nil while stopped
}

// errForeign is what a foreign server answers to calls that only its owner may
// make.
var errForeign = errors.New("the server was not started here")

// Start returns a server that answers. The sources are in the package comment;
// ErrNoServer means that there is none. The caller stops it.
func Start(ctx context.Context, options Options) (*Server, error) {
	options = options.withDefaults()
	if foreign := os.Getenv(EnvDatabaseURL); foreign != "" && !options.Private {
		return Attach(ctx, foreign)
	}
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	folder, err := openFolder(ctx, options.Dir, options.Volatile, owner)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, folder: folder}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, folder.close(ctx))
	}
	if err := s.launch(ctx); err != nil {
		return nil, errors.Join(err, folder.close(ctx))
	}
	return s, nil
}

// Attach returns a foreign server, once it answers at the address. Its Stop does nothing; Kill and Restart are errors.
func Attach(ctx context.Context, address string) (*Server, error) {
	root, err := url.Parse(address)
	if err != nil || (root.Scheme != "postgres" && root.Scheme != "postgresql") {
		return nil, errors.New("the server's address must be a URL: postgres://user:password@host:port/database")
	}
	s := &Server{options: Options{}.withDefaults(), root: *root}
	if err := s.awaitAnswer(ctx, nil); err != nil {
		return nil, fmt.Errorf("reach %s: %w", root.Redacted(), err)
	}
	return s, nil
}

// URL is the address of a database on the server; it stays the same over Kill
// and Restart. An empty name is the maintenance database.
func (s *Server) URL(database string) string {
	address := s.root
	if database != "" {
		address.Path = "/" + database
	}
	return address.String()
}

// SocketURL is the address of a database over the Unix socket, which is faster
// than TCP; it is URL's where the server has no socket here.
func (s *Server) SocketURL(database string) string {
	if s.folder == nil || s.folder.socketDir() == "" {
		return s.URL(database)
	}
	address := s.root
	if database != "" {
		address.Path = "/" + database
	}
	query := address.Query()
	query.Set("host", s.folder.socketDir())
	query.Set("port", address.Port())
	address.Host, address.RawQuery = "", query.Encode()
	return address.String()
}

// Foreign reports whether the server was not started here, so that Kill and
// Restart are not possible.
func (s *Server) Foreign() bool { return s.folder == nil }

// CreateDatabase returns the address of the database, which it creates unless
// it exists.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	return s.CopyDatabase(ctx, "", name)
}

// CopyDatabase is CreateDatabase for a database that begins as a copy of another,
// which may have no connections; it is empty if original is "".
func (s *Server) CopyDatabase(ctx context.Context, original, name string) (string, error) {
	err := s.onMaintenance(ctx, func(conn *pgx.Conn) error {
		var exists bool
		err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists)
		if err != nil || exists {
			return err
		}
		// Whatever the cluster was made with, the engine needs UTF8.
		source := "template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"
		if original != "" {
			source = pgx.Identifier{original}.Sanitize()
		}
		_, err = conn.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()+" template "+source)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create database %s (the role needs CREATEDB): %w", name, err)
	}
	return s.URL(name), nil
}

// DropDatabase removes the database with its replication slots, and cuts the
// connections to it. One that does not exist is no error.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	err := s.onMaintenance(ctx, func(conn *pgx.Conn) error {
		statements := []string{
			"select pg_terminate_backend(pid, 2000) from pg_stat_activity where datname = $1",
			"select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1 and not active",
		}
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement, name); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// Stop ends the server, which writes its data first; when the context ends, or
// after 10 s, it is stopped hard, and recovers at its next start. A temporary
// folder is removed.
func (s *Server) Stop(ctx context.Context) error {
	if s.folder == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.main != nil {
		err = s.main.stop(ctx)
		s.main = nil
		s.log(ctx, "postgresql stopped")
	}
	if s.folder.lock == nil {
		return err
	}
	err = errors.Join(err, s.folder.close(context.WithoutCancel(ctx)))
	s.folder.lock = nil
	return err
}

// Kill ends the server with SIGKILL, as a crash would. Restart brings it back.
func (s *Server) Kill() error {
	if s.folder == nil {
		return fmt.Errorf("kill the server: %w", errForeign)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		return nil
	}
	err := s.main.kill()
	s.main = nil
	return err
}

// Restart stops the server, unless Kill did, and starts it on the same port.
func (s *Server) Restart(ctx context.Context) error {
	if s.folder == nil {
		return fmt.Errorf("restart the server: %w", errForeign)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder.lock == nil {
		return errors.New("restart the server: it was stopped for good")
	}
	if s.main != nil {
		if err := s.main.stop(ctx); err != nil {
			return fmt.Errorf("stop the server: %w", err)
		}
		s.main = nil
	}
	return s.launch(ctx)
}

// onMaintenance runs f on a connection of its own to the maintenance database.
func (s *Server) onMaintenance(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL(""))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is lost with it
	return f(conn)
}

func (s *Server) log(ctx context.Context, message string) {
	s.options.Log.LogAttrs(ctx, slog.LevelInfo, message, //nolint:sloglint // the callers' messages are constants
		slog.String("dir", s.folder.path), slog.Int("port", s.port), slog.Int("major", s.binaries.major))
}
