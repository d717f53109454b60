package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/troupe-dev/troupe/cluster"
)

const (
	// batchRowsMax bounds how many rows are merged before they are handed on:
	// a transaction of a million rows must not hold up its first.
	batchRowsMax = 1000
	// silentIntervalsMax is how many status intervals may pass without a
	// word from the server, which is asked for one in each.
	silentIntervalsMax = 10
	// behindIntervalsMax is how many status intervals the stream may take to come to
	// where the server's log was.
	behindIntervalsMax = 3
)

var (
	errStreamSilent = errors.New("the stream's server does not answer")
	errStreamBehind = errors.New("the stream is behind the server's log, as after a large transaction: pods look for work without it")
)

// Read implements cluster.Stream.
func (a *Adapter) Read(ctx context.Context, connected func(), sink func([]cluster.Wake)) error {
	conn, start, err := a.openStream(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	a.written.Store(0)
	connected()
	r := &reader{
		adapter: a, conn: conn.PgConn(), name: conn.Config().RuntimeParams["application_name"], kept: start, sink: sink,
		decoder: newDecoder(a.config.Schema, a.channel), batch: cluster.NewCoalescer(cluster.DefaultWakeLimits()),
	}
	err = r.run(ctx)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == stateUndefinedObject {
		return a.unpublished(err)
	}
	return err
}

// reader reads one stream on the goroutine of Read.
type reader struct {
	adapter *Adapter
	conn    *pgconn.PgConn
	name    string // that the server knows the session by
	sink    func([]cluster.Wake)
	decoder *decoder
	batch   *cluster.Coalescer // queues by number (see queueNumber), until they are handed on

	received  pglogrepl.LSN // read to here: wakes are hints, nothing is replayed
	kept      pglogrepl.LSN // the server keeps its log from here on, for this stream
	keptFor   int           // intervals since then
	due       pglogrepl.LSN // where the log was some intervals ago; 0: not known
	late      int           // intervals since then
	rows      int           // in the batch
	committed bool          // the batch holds a whole transaction
	heard     bool          // a message, since the last confirmation
	writers   []int64       // transactions in the batch
}

func (r *reader) run(ctx context.Context) error {
	silent := 0
	for n := 1; ; n++ {
		r.heard = false
		if err := r.interval(ctx); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		silent++
		if r.heard {
			silent = 0
		}
		if silent >= silentIntervalsMax {
			return fmt.Errorf("read the stream: %w", errStreamSilent)
		}
		if err := r.behind(); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if err := r.confirm(ctx, n); err != nil {
			return err
		}
	}
}

// interval reads until it is time to confirm.
func (r *reader) interval(ctx context.Context) error {
	interval, cancel := context.WithTimeout(ctx, r.adapter.config.StatusInterval)
	defer cancel()
	for {
		message, err := r.conn.ReceiveMessage(interval)
		if err != nil {
			if interval.Err() != nil && ctx.Err() == nil && pgconn.Timeout(err) && !r.conn.IsClosed() {
				return nil
			}
			return err
		}
		r.heard = true
		if err := r.receive(ctx, message); err != nil {
			return err
		}
	}
}

// behind returns an error if the stream has not come to where the log was
// behindIntervalsMax ago. The sender of a stream decodes the transactions of all
// sessions in the order of their commits, and sends keepalives meanwhile; a new stream
// begins behind them.
func (r *reader) behind() error {
	r.late++
	switch {
	case r.received >= r.due:
		r.due, r.late = pglogrepl.LSN(r.adapter.written.Load()), 0
	case r.late >= behindIntervalsMax:
		return fmt.Errorf("%w (%d kB)", errStreamBehind, (pglogrepl.LSN(r.adapter.written.Load())-r.received)>>10)
	}
	return nil
}

func (r *reader) receive(ctx context.Context, message pgproto3.BackendMessage) error {
	switch m := message.(type) {
	case *pgproto3.CopyData:
		if err := r.copyData(m.Data); err != nil {
			return err
		}
		r.handOn(ctx)
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the stream")
	}
	return nil
}

func (r *reader) copyData(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		keepalive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil {
			return err
		}
		r.received = max(r.received, keepalive.ServerWALEnd)
		if keepalive.ReplyRequested {
			return r.reply(false)
		}
	case pglogrepl.XLogDataByteID:
		record, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		if err := r.collect(record.WALData); err != nil {
			return err
		}
		// Where the message stands in the log, which has nothing to do with its length:
		// a server that shuts down waits until exactly what it has sent is confirmed.
		r.received = max(r.received, record.WALStart)
	}
	return nil
}

func (r *reader) collect(change []byte) error {
	wakes, committed, err := r.decoder.decode(change)
	if err != nil {
		return err
	}
	r.committed = r.committed || committed
	if len(wakes) == 0 {
		return nil
	}
	r.batch.Add(wakes...)
	r.rows += len(wakes)
	writer := int64(r.decoder.writer)
	if n := len(r.writers); writer != 0 && (n == 0 || r.writers[n-1] != writer) {
		r.writers = append(r.writers, writer)
	}
	return nil
}

// handOn hands on the batch once it holds a whole transaction and nothing more
// has arrived. All that is sent has been committed, so a large transaction may
// as well be handed on in pieces.
func (r *reader) handOn(ctx context.Context) {
	due := r.committed && r.conn.Frontend().ReadBufferLen() == 0
	if !due && r.rows < batchRowsMax {
		return
	}
	r.rows, r.committed = 0, false
	if r.batch.Len() == 0 {
		return
	}
	r.adapter.awaitVisible(ctx, r.writers)
	r.writers = r.writers[:0]
	wakes := r.batch.Drain()
	named := cluster.NewCoalescer(cluster.DefaultWakeLimits())
	for _, w := range wakes {
		if number, ok := strings.CutPrefix(w.Queue, queueNumber); ok {
			w.Queue = r.adapter.queues.name(ctx, number)
		}
		named.Add(w)
	}
	r.sink(named.Drain())
}
