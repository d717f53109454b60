package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// rotateAhead is how long before it begins the next span of events is
	// there at the latest, as a part of its length.
	rotateAhead = 3
	// rotateNotice is how soon the first span may begin: until it is made,
	// events fall into the table that catches all.
	rotateNotice = 2 * time.Second
	// rotateAfter is how long after its end a span may still be written to by
	// transactions whose clock is that old.
	rotateAfter = time.Minute
	// keepRuns bounds the runs whose events one call puts aside.
	keepRuns = 500
)

// RotateEvents implements persistence.History.
func (s *History) RotateEvents(ctx context.Context, epoch int64, length time.Duration) (persistence.Rotated, error) {
	var all spans
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		var err error
		all, err = s.spans(ctx, s.Conns, epoch, eventClass)
		return err
	})
	if err != nil {
		return persistence.Rotated{}, err
	}
	if next, due := all.next(length); due {
		_, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error { return s.MakeSpan(ctx, tx, &next) })
		return persistence.Rotated{}, err
	}
	if len(all.list) == 0 || all.list[0].Until.Add(rotateAfter).After(all.now) {
		return persistence.Rotated{}, nil
	}
	oldest := &all.list[0]
	if !oldest.closed {
		return s.closeSpan(ctx, epoch, oldest)
	}
	return s.emptySpan(ctx, epoch, oldest)
}

// next returns the span that follows the last, and whether it is time to make
// it.
func (s *spans) next(length time.Duration) (next Span, due bool) {
	next = Span{Class: eventClass, Since: s.now.Add(rotateNotice)}
	if len(s.list) > 0 {
		last := s.list[len(s.list)-1].Until
		if last.Sub(s.now) > length/rotateAhead {
			return next, false
		}
		if last.After(next.Since) {
			next.Since = last
		}
	}
	next.Until = next.Since.Add(length)
	return next, true
}

// closeSpan ends all writes into a span. It waits, with a short lock timeout, for
// transactions that began to write before the span ended. A clock that was set back may
// still write events of that time: a trigger keeps them elsewhere. A pod of an earlier
// version may have made the table without a replica identity, which deletes need.
func (s *History) closeSpan(ctx context.Context, epoch int64, one *Span) (persistence.Rotated, error) {
	done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		const sql = `alter table {table} replica identity full;
			create trigger closed before insert on {table} for each row execute function {schema}.keep_event();
			alter table {table} enable always trigger closed`
		if err := s.define(ctx, tx, sql, one); err != nil {
			return err
		}
		return s.Exec(ctx, tx, "mark_span", pgsql.Named{"span": one.number, "cursor": [16]byte{}})
	})
	return persistence.Rotated{More: done}, err
}

// emptySpan puts the events of some living runs aside, or drops the span if
// there is none left that may have any.
func (s *History) emptySpan(ctx context.Context, epoch int64, one *Span) (persistence.Rotated, error) {
	out := persistence.Rotated{}
	done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		out = persistence.Rotated{More: true}
		text, args := s.Bind("walk_runs", pgsql.Named{"after": one.cursor, "limit": keepRuns})
		rows, err := tx.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return err
		}
		if len(list) == 0 {
			out.Spans = 1
			return s.dropSpan(ctx, tx, one)
		}
		runs := make(pgsql.UUIDs, len(list))
		for i, id := range list {
			runs[i] = workflow.RunID(id)
		}
		// A plan for any span would have each of them refused for one that lacks
		// a replica identity.
		err = s.Exec(ctx, tx, "set_local", pgsql.Named{"names": []string{"plan_cache_mode"}, "values": []string{"force_custom_plan"}})
		if err != nil {
			return err
		}
		los, his := Intervals(runs)
		text, args = s.Bind("keep_events", pgsql.Named{
			"runs": runs, "los": los, "his": his, "since": one.Since, "until": one.Until,
		})
		if err := tx.QueryRow(ctx, text, args...).Scan(&out.Kept); err != nil {
			return err
		}
		return s.Exec(ctx, tx, "mark_span", pgsql.Named{"span": one.number, "cursor": list[len(list)-1]})
	})
	if err != nil || !done {
		return persistence.Rotated{}, err
	}
	return out, nil
}
