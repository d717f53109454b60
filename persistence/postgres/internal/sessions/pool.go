package sessions

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/clock"
)

// Pool are the store's own connections. Behind a pooling proxy that gives a
// server's session to the client that has a transaction to make, nothing that is set or
// prepared in a session is there the next time: settings are then made in each
// transaction, in the round trip of its first statement. It is safe for concurrent
// use.
type Pool struct {
	pool   *pgxpool.Pool
	dials  *dials
	settle string // statement that makes the settings of one transaction; "": the session has them

	giving chan struct{} // holds one while a connection is given away; guards what follows
	given  time.Time     // when the last one was
}

// Open makes a pool. It connects when it is used.
func Open(ctx context.Context, options Options) (*Pool, error) {
	p := &Pool{dials: &dials{}, giving: make(chan struct{}, 1)}
	config := options.direct()
	if options.Proxied {
		config, p.settle = options.proxied(), settling()
	}
	p.dials.prepare(config)
	var err error
	p.pool, err = pgxpool.NewWithConfig(ctx, config)
	return p, err
}

// Close closes all connections and waits for statements in flight.
func (p *Pool) Close() { p.pool.Close() }

// Bare returns the pool of pgx below, without anything that Pool adds to it.
func (p *Pool) Bare() *pgxpool.Pool { return p.pool }

// Proxied reports whether connections are those of a proxy, not the server's.
func (p *Pool) Proxied() bool { return p.settle != "" }

// beginning is what a transaction begins with, in order.
func (p *Pool) beginning() []string {
	if !p.Proxied() {
		return []string{"begin"}
	}
	return []string{"begin isolation level read committed read write", p.settle}
}

const (
	crowdedPause = 20 * time.Millisecond
	crowdedMax   = 2 * time.Second // all pauses of a call
)

// Acquire takes a connection. Its settings are made with beginning. Where the
// server has none to give, as for a role that may have fewer than the pool, those
// that the pool has are waited for.
func (p *Pool) Acquire(ctx context.Context) (conn *pgxpool.Conn, err error) {
	for waited := time.Duration(0); ; waited += crowdedPause {
		conn, err = p.pool.Acquire(ctx)
		none, said := noConnection(err)
		if said {
			p.dials.note(true)
		}
		if !none || waited >= crowdedMax || p.pool.Stat().TotalConns() == 0 || !(clock.System{}).Pause(ctx, crowdedPause) {
			return conn, err
		}
	}
}

// Begin begins a transaction.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	return p.BeginTx(ctx, pgx.TxOptions{BeginQuery: strings.Join(p.beginning(), "; ")})
}

// BeginTx begins a transaction of another kind. Behind a proxy its settings are
// the caller's to make.
func (p *Pool) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	conn, err := p.Acquire(ctx)
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
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return unsentBatch{err: err}
	}
	all := b
	if p.Proxied() {
		all = &pgx.Batch{}
		all.Queue(p.settle)
		all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	}
	return &pooledBatch{BatchResults: conn.SendBatch(ctx, all), conn: conn}
}

// Query runs one statement in a transaction of its own.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if !p.Proxied() {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			conn.Release()
			return nil, err
		}
		return &pooledRows{Rows: rows, conn: conn}, nil
	}
	b := &pgx.Batch{}
	b.Queue(p.settle)
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
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return settledRow{rows, err}
}
