package sessions

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What is taken from a connection of the store's own pool gives it back with its
// end.

// pooledTx gives its connection back with its end.
type pooledTx struct {
	pgx.Tx
	conn *pgxpool.Conn
}

// Commit implements pgx.Tx.
func (t *pooledTx) Commit(ctx context.Context) error { return t.end(t.Tx.Commit(ctx)) }

// Rollback implements pgx.Tx.
func (t *pooledTx) Rollback(ctx context.Context) error { return t.end(t.Tx.Rollback(ctx)) }

func (t *pooledTx) end(err error) error {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
	return err
}

// pooledBatch gives its connection back with its end.
type pooledBatch struct {
	pgx.BatchResults
	conn *pgxpool.Conn
}

// Close implements pgx.BatchResults.
func (r *pooledBatch) Close() error {
	err := r.BatchResults.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
	return err
}

// unsentBatch is a batch that no connection was had for.
type unsentBatch struct {
	pgx.BatchResults // nil: what is not below is not used
	err              error
}

func (r unsentBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, r.err }
func (r unsentBatch) Query() (pgx.Rows, error)         { return nil, r.err }
func (r unsentBatch) QueryRow() pgx.Row                { return settledRow{nil, r.err} }
func (r unsentBatch) Close() error                     { return r.err }

// pooledRows gives its connection back with its end.
type pooledRows struct {
	pgx.Rows
	conn *pgxpool.Conn
}

// Next implements pgx.Rows.
func (r *pooledRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *pooledRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}
