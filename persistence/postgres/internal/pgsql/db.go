package pgsql

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
)

// DB sends the statements of one schema on the store's own connections. Every room of
// the store embeds it. It is safe for concurrent use.
type DB struct {
	Conns       *sessions.Pool       // the store's own
	CallerSlots sessions.CallerSlots // of Conns, for calls from outside of the engine
	Statements  Statements
	Schema      string

	// Relearn registers definitions again after the database has lost them, see
	// pgerr.ErrRegistryLost. It is set before the first call.
	Relearn func(ctx context.Context) error
}

// Querier is the pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Bind returns the text of a statement and its arguments in order.
func (d *DB) Bind(name string, args Named) (string, []any) { return d.Statements.Bind(name, args) }

// Write runs do in a transaction of the store's own pool, again if the database
// rolls it back, or has lost definitions.
func (d *DB) Write(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return d.WithRegistry(ctx, func() error {
		return pgerr.Retry(ctx, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, d.Conns, func(tx pgx.Tx) error { return do(ctx, tx) })
		})
	})
}

// WriteShort is Write for transactions of which do knows the last batch.
func (d *DB) WriteShort(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return pgerr.Retry(ctx, func(ctx context.Context) error { return d.Conns.Short(ctx, do) })
}

// Fenced runs do in a transaction that a newer leader waits for, and that an older
// one cannot make.
func (d *DB) Fenced(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx) error) error {
	return d.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		text, args := d.Bind("fence", Named{"epoch": epoch})
		var one int
		switch err := tx.QueryRow(ctx, text, args...).Scan(&one); {
		case errors.Is(err, pgx.ErrNoRows):
			return persistence.ErrDeposed
		case err != nil:
			return err
		}
		return do(ctx, tx)
	})
}

// WithRegistry makes a call again if the database turns out to have lost definitions that it
// needs, once they are registered again.
func (d *DB) WithRegistry(ctx context.Context, call func() error) error {
	err := call()
	if !errors.Is(err, pgerr.ErrRegistryLost) {
		return err
	}
	if err := d.Relearn(ctx); err != nil {
		return err
	}
	return call()
}

// Exec runs a statement without reading its rows.
func (d *DB) Exec(ctx context.Context, on Querier, name string, args Named) error {
	text, values := d.Bind(name, args)
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// Send runs a batch in one round trip. On the pool it is one transaction.
func Send(ctx context.Context, on Querier, b *Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return on.SendBatch(ctx, b.Ahead()).Close()
}

// ReadClock reads the database's time.
func (d *DB) ReadClock(ctx context.Context, on Querier, into *time.Time) error {
	text, args := d.Bind("read_clock", Named{})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	*into, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
	return pgerr.Translate(err)
}

// LockKey is the key of an advisory lock of this schema: advisory locks are
// per database, so the schema is part of the key.
func (d *DB) LockKey(parts ...string) int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe\x00" + d.Schema))
	for _, part := range parts {
		h.Write([]byte{0})
		h.Write([]byte(part))
	}
	return int64(h.Sum64())
}

// Quoted is the schema as statements name it.
func (d *DB) Quoted() string { return pgx.Identifier{d.Schema}.Sanitize() }

// NewBatch begins several statements in one round trip.
func (d *DB) NewBatch() *Batch { return &Batch{statements: d.Statements} }
