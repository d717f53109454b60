package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// eventClass stands for the spans of events where others have a class.
const eventClass int16 = -1

// Span is an interval of time with a table of its own: of runs of a class that
// ended in it, or of events.
type Span struct {
	number   int32
	Class    int16
	Since    time.Time
	Until    time.Time
	keptFrom time.Time
	keyed    bool
	closed   bool
	sealed   bool
	cursor   [16]byte
	counting bool // not all of its runs have been counted
	labeled  bool // has an index of labels, or no runs
}

// table returns the name of a span's table and that of what it is a part of.
func (s *Span) table() (name, whole string) {
	whole = "task_events"
	if s.Class != eventClass {
		whole = fmt.Sprintf("run_history_%d", s.Class)
	}
	return fmt.Sprintf("%s_%d", whole, s.number), whole
}

// spans are those of some classes, by time.
type spans struct {
	now       time.Time
	list      []Span
	moved     bool       // there are runs to add to the counts
	hoursFrom *time.Time // since when counts are kept by the hour; nil: always
}

// spans reads the spans of classes, if the epoch is that of the leader.
func (s *History) spans(ctx context.Context, on pgsql.Querier, epoch int64, classes ...int16) (spans, error) {
	text, args := s.Bind("list_spans", pgsql.Named{"classes": classes, "epoch": epoch})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return spans{}, err
	}
	var all spans
	leads := false
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var one Span
		var number *int32
		var since, until, keptFrom *time.Time
		var keyed, closed, sealed, counting, labeled *bool
		var cursor *[16]byte
		err := row.Scan(&all.now, &leads, &all.moved, &all.hoursFrom, &number, &one.Class, &since, &until, &keptFrom, &keyed, &closed, &sealed, &cursor, &counting, &labeled)
		if err == nil && number != nil {
			one.number, one.Since, one.Until, one.keptFrom = *number, *since, *until, *keptFrom
			one.keyed, one.closed, one.sealed, one.cursor = *keyed, *closed, *sealed, pgsql.OrZero(cursor)
			one.counting, one.labeled = *counting && one.Class != eventClass, *labeled
			all.list = append(all.list, one)
		}
		return struct{}{}, err
	})
	if err == nil && !leads {
		err = persistence.ErrDeposed
	}
	return all, err
}

// runClasses are the classes of runs.
func runClasses() []int16 {
	classes := make([]int16, workflow.RetentionClasses)
	for i := range classes {
		classes[i] = int16(i)
	}
	return classes
}

// holding returns the span of a class that an instant is in, or nil.
func (s *spans) holding(class int16, at time.Time) *Span {
	for i := range s.list {
		if one := &s.list[i]; one.Class == class && !at.Before(one.Since) && at.Before(one.Until) {
			return one
		}
	}
	return nil
}

// around returns a span for an instant that none holds, cut where its
// neighbours begin: retentions may have changed since those were made.
func (s *spans) around(class int16, at time.Time, retention persistence.Retention) Span {
	made := Span{Class: class}
	made.Since, made.Until = retention.SpanOf(workflow.RetentionClass(class), at)
	for i := range s.list {
		one := &s.list[i]
		switch {
		case one.Class != class:
		case !one.Until.After(at) && one.Until.After(made.Since):
			made.Since = one.Until
		case one.Since.After(at) && one.Since.Before(made.Until):
			made.Until = one.Since
		}
	}
	return made
}

// over returns the spans of runs that have been kept for long enough by an instant.
func (s *spans) over(retention persistence.Retention, by time.Time) []Span {
	var over []Span
	now := persistence.NotAfter(s.now, by)
	for _, one := range s.list {
		if keep := retention[one.Class]; keep != 0 && !one.keptFrom.Add(keep).After(now) {
			over = append(over, one)
		}
	}
	return over
}

// failures are the indexes of the runs of a span that failed or were canceled: few, and
// looked for often. A leader of an earlier version makes none.
const failures = `create index if not exists {name}_failed on {table} (id) where slice = 0 and state in (11, 13);
		create index if not exists {name}_failed_by_tenant on {table} (tenant, uuid_send(id)) where slice = 0 and state in (11, 13)`

// MakeSpan makes a span and its table. The table becomes a part of the whole
// when it is complete, so that writers do not wait.
func (s *History) MakeSpan(ctx context.Context, tx pgx.Tx, one *Span) error {
	if err := s.noteSpan(ctx, tx, one); err != nil {
		return err
	}
	const runs = `create table {table} (like {schema}.run_history including constraints);
		create unique index on {table} (id, slice);
		create index on {table} (tenant, uuid_send(id)) where slice = 0;
		` + failures + `;`
	const events = `create table {table} (like {schema}.task_events including constraints);
		create index on {table} using brin (run_id uuid_minmax_multi_ops) with (pages_per_range = 32, autosummarize = on);`
	sql := runs
	if one.Class == eventClass {
		sql = events
	}
	const identity = `alter table {table} replica identity full;` // it is not that of the whole
	if one.Class == eventClass {                                  // a clock that was ahead has left events of that time in the table that catches all
		sql += `with early as (
				delete from {schema}.task_events_default where at >= '{since}' and at < '{until}' returning *
			)
			insert into {table} select * from early;`
	}
	err := s.define(ctx, tx, sql+identity+`alter table {whole} attach partition {table} for values from ('{since}') to ('{until}')`, one)
	if err != nil {
		return err
	}
	return s.handOver(ctx, tx, one)
}

// takenSpansMax bounds the numbers that one span tries.
const takenSpansMax = 10_000

// noteSpan notes a span under a number of its own. A copy of a database by logical
// replication has all spans, and a sequence that begins anew.
func (s *History) noteSpan(ctx context.Context, tx pgx.Tx, one *Span) error {
	text, args := s.Bind("insert_span", pgsql.Named{"class": one.Class, "since": one.Since, "until": one.Until})
	err := pgx.ErrNoRows
	for range takenSpansMax {
		if err = tx.QueryRow(ctx, text, args...).Scan(&one.number); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	return fmt.Errorf("no free number for a span after %d tries: set the sequence of spans.span above all that are in use: %w", takenSpansMax, err)
}

// handOver gives the table of a span to the owner of the whole: roles of pods may
// come and go, each a member of that one, and what one of them made could be
// closed and dropped by no other.
func (s *History) handOver(ctx context.Context, tx pgx.Tx, one *Span) error {
	_, whole := one.table()
	text, args := s.Bind("find_owner", pgsql.Named{"schema": s.Schema, "whole": whole})
	var owner *string
	if err := tx.QueryRow(ctx, text, args...).Scan(&owner); err != nil || owner == nil {
		return err
	}
	return s.define(ctx, tx, `alter table {table} owner to `+pgx.Identifier{*owner}.Sanitize(), one)
}

// dropSpan removes a span and all that is in it.
func (s *History) dropSpan(ctx context.Context, tx pgx.Tx, one *Span) error {
	if err := s.define(ctx, tx, `drop table {table}`, one); err != nil {
		return err
	}
	return s.Exec(ctx, tx, "delete_span", pgsql.Named{"span": one.number})
}

// define runs statements about the table of a span, which take no arguments.
func (s *History) define(ctx context.Context, tx pgx.Tx, sql string, one *Span) error {
	name, whole := one.table()
	const instant = "2006-01-02 15:04:05.999999Z07:00"
	filled := strings.NewReplacer(
		"{schema}", s.Quoted(), "{table}", pgx.Identifier{s.Schema, name}.Sanitize(), "{name}", name,
		"{whole}", pgx.Identifier{s.Schema, whole}.Sanitize(),
		"{since}", one.Since.UTC().Format(instant), "{until}", one.Until.UTC().Format(instant),
	).Replace(sql)
	for part := range strings.SplitSeq(filled, ";") {
		if _, err := tx.Exec(ctx, part, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return nil
}
