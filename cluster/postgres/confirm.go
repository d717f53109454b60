package postgres

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/troupe-dev/troupe/internal/clock"
)

//go:embed sql/counted.sql
var countedSQL string

const (
	// lookIntervals is after how many status intervals the server is asked again what
	// holds for the stream, unless it keeps lookBytes of its log for it before.
	lookIntervals = 30
	lookBytes     = 64 << 20
	// keptIntervalsMax and keptBytesMax bound what the server keeps of its log for a
	// stream that may not tell it to let go.
	keptIntervalsMax = 600
	keptBytesMax     = 256 << 20
	// sinceUnix is how many seconds after others the protocol begins to count.
	sinceUnix = 946_684_800
)

var errStreamCounted = errors.New("the server counts every stream as a synchronous standby, so it keeps its log until this one ends, and another begins: " +
	"name the standbys in synchronous_standby_names instead of '*'")

// confirm tells the server that the stream is read, once in each status interval,
// and asks for an answer, which comes even when nothing happens.
//
// It does not say how far, in general. A server whose synchronous_standby_names is
// '*' takes any reader of a stream for a standby, and acknowledges commits that
// no standby has once the reader says that it has flushed them. One that has
// flushed nothing is not asked (SyncRepGetCandidateStandbys of PostgreSQL).
func (r *reader) confirm(ctx context.Context, n int) error {
	r.keptFor++
	behind := r.received > r.kept
	if n%lookIntervals != 0 && !(behind && r.received-r.kept >= lookBytes) {
		return r.reply(true)
	}
	state, counted, err := r.look(ctx)
	if err == nil {
		if cause := r.adapter.published(state); cause != nil {
			return cause
		}
	}
	switch {
	case !behind:
	case err == nil && !counted:
		r.kept, r.keptFor = r.received, 0
		return r.send(r.status(r.received, false), r.status(0, true))
	case r.keptFor < keptIntervalsMax && r.received-r.kept < keptBytesMax:
	case err != nil:
		return fmt.Errorf("nothing of the log was let go of: %w", err)
	default:
		return errStreamCounted
	}
	return r.reply(true)
}

// look asks whether the publication is as it should be, and whether the server counts
// this stream as a synchronous standby. If it cannot, it does the next time.
func (r *reader) look(ctx context.Context) (published string, counted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.adapter.config.QueueNameDeadline)
	defer cancel()
	sql := "select (" + r.adapter.publishedSQL() + "), (" + strings.ReplaceAll(countedSQL, "{name}", literal(r.name)) + ")"
	err = r.adapter.pool.QueryRow(ctx, sql).Scan(&published, &counted)
	return published, counted, err
}

// reply tells the server how far the log was received, which is all that it waits for
// when it shuts down.
func (r *reader) reply(asking bool) error { return r.send(r.status(0, asking)) }

// status is a standby status update of the replication protocol, which pglogrepl does
// not write without a position that was flushed.
func (r *reader) status(flushed pglogrepl.LSN, asking bool) *pgproto3.CopyData {
	data := []byte{pglogrepl.StandbyStatusUpdateByteID}
	for _, position := range []pglogrepl.LSN{r.received, flushed, flushed} {
		data = binary.BigEndian.AppendUint64(data, uint64(position))
	}
	data = binary.BigEndian.AppendUint64(data, uint64(clock.System{}.Now().UnixMicro()-sinceUnix*1_000_000))
	if asking {
		return &pgproto3.CopyData{Data: append(data, 1)}
	}
	return &pgproto3.CopyData{Data: append(data, 0)}
}

// send writes all of them at once: what a server reads together, it goes by together.
func (r *reader) send(updates ...*pgproto3.CopyData) (err error) {
	var data []byte
	for _, update := range updates {
		if data, err = update.Encode(data); err != nil {
			return err
		}
	}
	if err := r.conn.Frontend().SendUnbufferedEncodedCopyData(data); err != nil {
		return fmt.Errorf("confirm to the stream: %w", err)
	}
	return nil
}
