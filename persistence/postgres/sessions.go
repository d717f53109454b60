package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessions are the connections of the store's own pool. Behind a pooling proxy
// that gives a server's session to whoever has a transaction to make, nothing
// that is set or prepared in a session is there the next time: settings are then
// made in each transaction, in the round trip of its first statement.
type sessions struct {
	pool   *pgxpool.Pool
	dials  *dials
	settle string // statement that makes the settings of one transaction; "": the session has them

	giving chan struct{} // holds one while a connection is given away; guards what follows
	given  time.Time     // when the last one was
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

const (
	crowdedPause = 20 * time.Millisecond
	crowdedMax   = 2 * time.Second // all pauses of a call
)

// Acquire takes a connection. Its settings are made with beginning. Where the
// server has none to give, as for a role that may have fewer than the pool, those
// that the pool has are waited for.
func (s *sessions) Acquire(ctx context.Context) (conn *pgxpool.Conn, err error) {
	for waited := time.Duration(0); ; waited += crowdedPause {
		conn, err = s.pool.Acquire(ctx)
		none, said := noConnection(err)
		if said {
			s.dials.note(true)
		}
		if !none || waited >= crowdedMax || s.pool.Stat().TotalConns() == 0 || !pause(ctx, crowdedPause) {
			return conn, err
		}
	}
}

// Begin begins a transaction.
func (s *sessions) Begin(ctx context.Context) (pgx.Tx, error) {
	return s.BeginTx(ctx, pgx.TxOptions{BeginQuery: strings.Join(s.beginning(), "; ")})
}

// BeginTx begins a transaction of another kind. Behind a proxy its settings are
// the caller's to make.
func (s *sessions) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, options)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &pooledTx{Tx: tx, conn: conn}, nil
}

// SendBatch sends a batch, which is one transaction.
func (s *sessions) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return unsentBatch{err: err}
	}
	all := b
	if s.settle != "" {
		all = &pgx.Batch{}
		all.Queue(s.settle)
		all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	}
	return &pooledBatch{BatchResults: conn.SendBatch(ctx, all), conn: conn}
}

// Query runs one statement in a transaction of its own.
func (s *sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if s.settle == "" {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			conn.Release()
			return nil, err
		}
		return &pooledRows{Rows: rows, conn: conn}, nil
	}
	b := &pgx.Batch{}
	b.Queue(s.settle)
	b.Queue(sql, args...)
	results := &pooledBatch{BatchResults: conn.SendBatch(ctx, b), conn: conn}
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
