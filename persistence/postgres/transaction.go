package postgres

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// write runs do in a transaction of the store's own pool, again if the database
// rolls it back, or has lost definitions.
func (s *Store) write(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.knowing(ctx, func() error {
		return retry(ctx, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
		})
	})
}

// writeShort is write for transactions of which do knows the last batch.
func (s *Store) writeShort(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return retry(ctx, func(ctx context.Context) error { return s.pool.Short(ctx, do) })
}

// querier is the pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// exec runs a statement and drops its rows.
func (s *Store) exec(ctx context.Context, on querier, name string, args named) error {
	text, values := s.statements.bind(name, args)
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// send runs a batch in one round trip. On the pool it is one transaction.
func send(ctx context.Context, on querier, b *batch) error {
	if b.Len() == 0 {
		return nil
	}
	return on.SendBatch(ctx, b.ahead()).Close()
}

// readClock reads the database's time.
func (s *Store) readClock(ctx context.Context, on querier, into *time.Time) error {
	text, args := s.statements.bind("read_clock", named{})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return translate(err)
	}
	*into, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
	return translate(err)
}

// lockKey is the key of an advisory lock of this schema: advisory locks are
// per database, so the schema is part of the key.
func (s *Store) lockKey(parts ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe\x00" + s.schema))
	for _, part := range parts {
		h.Write([]byte{0})
		h.Write([]byte(part))
	}
	return int64(h.Sum64())
}
