package postgres

import (
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// queueNumber marks the name of a queue as its number, to be looked up. No text
// in PostgreSQL contains it.
const queueNumber = "\x00"

// decoder turns messages of pgoutput (protocol 1) into wakes. It remembers the
// tables that the stream has described and the commit it is in.
type decoder struct {
	schema string
	prefix string
	tables map[uint32]table
	commit uint64 // log position of the commit that the rows belong to
	writer uint32 // transaction that they belong to; 0: none
}

// table is what the decoder knows of a table of the stream.
type table struct {
	name    string         // "": not one of ours
	columns map[string]int // the published ones
}

func newDecoder(schema, prefix string) *decoder {
	return &decoder{schema: schema, prefix: prefix, tables: map[uint32]table{}}
}

// decode returns the wakes of one message.
// committed tells that a transaction is complete.
func (d *decoder) decode(data []byte) (wakes []cluster.Wake, committed bool, err error) {
	if len(data) == 0 {
		return nil, false, nil
	}
	message, err := pglogrepl.Parse(data)
	if err != nil {
		return nil, false, fmt.Errorf("decode message %q of the stream: %w", data[0], err)
	}
	switch m := message.(type) {
	case *pglogrepl.BeginMessage:
		d.commit, d.writer = uint64(m.FinalLSN), m.Xid
	case *pglogrepl.CommitMessage:
		d.writer = 0
		return nil, true, nil
	case *pglogrepl.RelationMessage:
		d.describe(m)
	case *pglogrepl.InsertMessage:
		return d.insert(m), false, nil
	case *pglogrepl.LogicalDecodingMessage:
		// Outside a transaction nothing follows that would hand it on.
		return d.emitted(m), !m.Transactional, nil
	}
	return nil, false, nil
}

func (d *decoder) describe(m *pglogrepl.RelationMessage) {
	t := table{columns: map[string]int{}}
	if m.Namespace == d.schema {
		t.name = m.RelationName
	}
	for i, column := range m.Columns {
		t.columns[column.Name] = i
	}
	d.tables[m.RelationID] = t
}

// insert returns a wake for a row. What is missing in it, because another
// version published other columns, is unknown and wakes more than it had to.
func (d *decoder) insert(m *pglogrepl.InsertMessage) []cluster.Wake {
	t := d.tables[m.RelationID]
	text := func(column string) string {
		i, ok := t.columns[column]
		if !ok || m.Tuple == nil || i >= len(m.Tuple.Columns) || m.Tuple.Columns[i].DataType != pglogrepl.TupleDataTypeText {
			return ""
		}
		return string(m.Tuple.Columns[i].Data)
	}
	switch t.name {
	case "ready_queue":
		return []cluster.Wake{{Kind: cluster.WakeReady, Queue: queueNumber + text("queue"), Count: 1, Key: d.commit}}
	case "intake":
		return []cluster.Wake{{Kind: cluster.WakeSubmitted}}
	case "durable_timers":
		return []cluster.Wake{{Kind: cluster.WakeTimer, At: timestamp(text("wake_at"))}}
	case "task_events":
		run, _ := workflow.ParseRunID(text("run_id")) // zero means any run
		return ofEvent(text("kind"), run)
	}
	return nil
}

func ofEvent(kind string, run workflow.RunID) []cluster.Wake {
	code, err := strconv.ParseUint(kind, 10, 8)
	if err != nil {
		return nil
	}
	switch lifecycle.EventKind(code) { //nolint:exhaustive // only these are published
	case lifecycle.EventCancelRequested:
		return []cluster.Wake{{Kind: cluster.WakeCanceling, Run: run}}
	case lifecycle.EventRunCompleted, lifecycle.EventRunFailed, lifecycle.EventRunCanceled:
		return []cluster.Wake{{Kind: cluster.WakeEnded, Run: run}}
	}
	return nil
}

// emitted returns the wakes of a logical message, which has a notification's
// format. Messages of others on this database are none of ours.
func (d *decoder) emitted(m *pglogrepl.LogicalDecodingMessage) []cluster.Wake {
	if m.Prefix != d.prefix {
		return nil
	}
	notice, err := ParsePayload(string(m.Content))
	if err != nil {
		return nil
	}
	return notice.Wakes
}

// timestamp reads a timestamptz in the stream's settings (ISO, UTC). The zero
// time, for what has no such form, means unknown.
func timestamp(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05.999999999Z07", text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
