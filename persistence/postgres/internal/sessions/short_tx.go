package sessions

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// shortTx is a transaction without round trips of its own: it begins with its
// first statements and commits with the last batch. Triggers and the slow path
// take a third fewer that way, and each one is time that a caller waits and
// locks are held. It is used by one goroutine, and begins and ends in Short.
type shortTx struct {
	pgx.Tx // nil: what is not below is not used
	conn   *pgxpool.Conn
	on     *Pool
	begun  bool
	ended  bool
}

var _ pgx.Tx = (*shortTx)(nil)

// Short runs do in a transaction that commits if do returns nil, with the last
// batch if do says which that is (SendLast).
func (p *Pool) Short(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes a connection whose transaction has not ended
	tx := &shortTx{conn: conn, on: p}
	err = do(ctx, tx)
	switch {
	case err != nil:
		if tx.begun && !tx.ended && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "rollback") // or the connection is closed
		}
		return err
	case tx.begun && !tx.ended:
		return SendLast(ctx, tx, &pgx.Batch{})
	}
	return nil
}

// SendBatch implements pgx.Tx.
func (t *shortTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if !t.begun {
		t.begun = true
		first := &pgx.Batch{}
		for _, text := range t.on.beginning() {
			first.Queue(text)
		}
		first.QueuedQueries = append(first.QueuedQueries, b.QueuedQueries...)
		b = first
	}
	return t.conn.SendBatch(ctx, b)
}

// Query implements pgx.Tx.
func (t *shortTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !t.begun {
		if _, err := t.conn.Exec(ctx, strings.Join(t.on.beginning(), "; ")); err != nil {
			return nil, err
		}
		t.begun = true
	}
	return t.conn.Query(ctx, sql, args...)
}

// Conn implements pgx.Tx.
func (t *shortTx) Conn() *pgx.Conn { return t.conn.Conn() }

// SendLast sends the last batch of a transaction, and with it the commit if the
// transaction is one of Short.
func SendLast(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if short, is := tx.(*shortTx); is {
		b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
			if tag.String() != "COMMIT" {
				return pgx.ErrTxCommitRollback
			}
			short.ended = true
			return nil
		})
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}
