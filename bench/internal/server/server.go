package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

// Server is a private PostgreSQL. It ends with this process.
type Server struct {
	pg         *pgdev.Server
	statements bool
	made       int
	shim       *shim
}

// settings are those of a server with some memory. Everything that makes
// commits durable stays on.
func settings() map[string]string {
	return map[string]string{
		"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min",
	}
}

// Start starts a server. The one that counts statements does so only in
// databases that ask for it: counting costs time.
func Start(ctx context.Context) (*Server, error) {
	counting := settings()
	maps.Copy(counting, map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "none"})
	pg, err := pgdev.Start(ctx, pgdev.Options{Private: true, Settings: counting})
	if err != nil {
		if pg, err = pgdev.Start(ctx, pgdev.Options{Private: true, Settings: settings()}); err != nil {
			return nil, err
		}
		return &Server{pg: pg}, nil
	}
	s := &Server{pg: pg, statements: true}
	return s, s.exec(ctx, "create extension if not exists pg_stat_statements")
}

// StartSlow starts a server whose every flush of the write-ahead log takes 1 ms
// longer. ErrNoCompiler: it cannot be made here.
func StartSlow(ctx context.Context) (*Server, error) {
	shim, err := makeShim(ctx)
	if err != nil {
		return nil, err
	}
	// The server inherits the environment of this process.
	if err := os.Setenv(preload, shim.library); err != nil {
		return nil, errors.Join(err, shim.remove())
	}
	pg, err := pgdev.Start(ctx, pgdev.Options{Private: true, Settings: settings()})
	if err := errors.Join(err, os.Unsetenv(preload)); err != nil {
		return nil, errors.Join(err, shim.remove())
	}
	return &Server{pg: pg, shim: shim}, nil
}

// Stop ends the server.
func (s *Server) Stop(ctx context.Context) error {
	err := s.pg.Stop(context.WithoutCancel(ctx))
	if s.shim != nil {
		err = errors.Join(err, s.shim.remove())
	}
	return err
}

// Place is a database for one measurement.
type Place struct {
	URL        string `json:"url"`
	Admin      string `json:"admin"` // the maintenance database, for counters
	Name       string `json:"name"`
	Statements bool   `json:"statements"` // they are counted
}

// Create makes a database, and a checkpoint, so that whole pages are not logged
// in some measurements and not in others.
func (s *Server) Create(ctx context.Context, countStatements bool) (Place, error) {
	s.made++
	p := Place{Name: fmt.Sprintf("bench_%d", s.made), Admin: s.pg.URL(""), Statements: s.statements && countStatements}
	var err error
	if p.URL, err = s.pg.CreateDatabase(ctx, p.Name); err != nil {
		return p, err
	}
	if p.Statements {
		if err := s.exec(ctx, "alter database "+p.Name+" set pg_stat_statements.track = 'top'"); err != nil {
			return p, err
		}
	}
	return p, s.exec(ctx, "checkpoint")
}

// Drop removes the database of a place.
func (s *Server) Drop(ctx context.Context, p Place) error {
	return s.pg.DropDatabase(context.WithoutCancel(ctx), p.Name)
}

// Describe says what server this is.
func (s *Server) Describe(ctx context.Context) (text string, err error) {
	err = s.connected(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) || ', private, ' ||
			string_agg(name || '=' || current_setting(name), ', ' order by name) from pg_settings where name in ('fsync',
			'synchronous_commit', 'full_page_writes', 'wal_level', 'shared_buffers', 'max_wal_size')`).Scan(&text)
	})
	return text, err
}

func (s *Server) exec(ctx context.Context, sql string) error {
	return s.connected(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func (s *Server) connected(ctx context.Context, use func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.pg.URL(""))
	if err != nil {
		return err
	}
	return errors.Join(use(conn), conn.Close(ctx))
}
