package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessions are the connections of the store's own pool. Behind a pooling proxy
// that gives a server's session to whoever has a transaction to make, nothing
// that is set or prepared in a session is there the next time: settings are then
// made in each transaction, in the round trip of its first statement.
type sessions struct {
	pool   *pgxpool.Pool
	settle string // statement that makes the settings of one transaction; "": the session has them
}

// settling is the statement that makes the session's settings for the rest of a
// transaction.
func settling() string {
	settings := sessionSettings()
	calls := make([]string, 0, len(settings)+1)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, settings[name]))
	}
	// As keepCommitsDurable: stricter settings stay.
	calls = append(calls, `pg_catalog.set_config('synchronous_commit', case pg_catalog.current_setting('synchronous_commit')
		when 'off' then 'on' else pg_catalog.current_setting('synchronous_commit') end, true)`)
	return "/* troupe settle */ select " + strings.Join(calls, ", ")
}

// beginning is what a transaction begins with, in order.
func (s *sessions) beginning() []string {
	if s.settle == "" {
		return []string{"begin"}
	}
	return []string{"begin isolation level read committed read write", s.settle}
}

// Acquire takes a connection. Its settings are made with beginning.
func (s *sessions) Acquire(ctx context.Context) (*pgxpool.Conn, error) { return s.pool.Acquire(ctx) }

// Begin begins a transaction.
func (s *sessions) Begin(ctx context.Context) (pgx.Tx, error) {
	return s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: strings.Join(s.beginning(), "; ")})
}

// BeginTx begins a transaction of another kind. Behind a proxy its settings are
// the caller's to make.
func (s *sessions) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	return s.pool.BeginTx(ctx, options)
}

// SendBatch sends a batch, which is one transaction.
func (s *sessions) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if s.settle == "" {
		return s.pool.SendBatch(ctx, b)
	}
	all := &pgx.Batch{}
	all.Queue(s.settle)
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	return s.pool.SendBatch(ctx, all)
}

// Query runs one statement in a transaction of its own.
func (s *sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s.settle == "" {
		return s.pool.Query(ctx, sql, args...)
	}
	b := &pgx.Batch{}
	b.Queue(s.settle)
	b.Queue(sql, args...)
	results := s.pool.SendBatch(ctx, b)
	if _, err := results.Exec(); err != nil {
		_ = results.Close() // the same error
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // the same error
		return nil, err
	}
	return &settledRows{Rows: rows, results: results}, nil
}

// QueryRow runs one statement that returns a row, in a transaction of its own.
func (s *sessions) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if s.settle == "" {
		return s.pool.QueryRow(ctx, sql, args...)
	}
	rows, err := s.Query(ctx, sql, args...)
	return settledRow{rows, err}
}

// settledRows are rows of a statement that was sent with its settings. Once they
// have been read, so has whether it was committed.
type settledRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error // of the end
}

// Next implements pgx.Rows.
func (r *settledRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *settledRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

// Err implements pgx.Rows.
func (r *settledRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// settledRow is the first of settledRows.
type settledRow struct {
	rows pgx.Rows
	err  error
}

// Scan implements pgx.Row.
func (r settledRow) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(targets...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
