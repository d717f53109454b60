package readers

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// deadArgs are the arguments of parts/dead_filter.sql; false: nothing can match.
func deadArgs(f *persistence.DeadFilter) (pgsql.Named, bool) {
	reasons := make([]int16, len(f.Reasons))
	for i, r := range f.Reasons {
		reasons[i] = int16(r)
	}
	return pgsql.Named{
		"tenant": pgsql.TextOrNull(f.Tenant), "workflow": pgsql.TextOrNull(f.Workflow), "step": pgsql.TextOrNull(f.Step), "reasons": reasons,
		"queue": pgsql.TextOrNull(f.Queue), "handler": pgsql.TextOrNull(f.Handler),
		"older": max(f.OlderThan, 0).Microseconds(), "by": pgsql.Instant(f.By), "younger": max(f.YoungerThan, 0).Microseconds(), "requeued": int16(f.Requeued),
	}, !slices.ContainsFunc([]string{f.Tenant, f.Workflow, f.Step, f.Queue, f.Handler}, func(text string) bool { return !pgsql.Storable(text) })
}

// pageArgs are deadArgs with where a page begins and how long it is.
func pageArgs(f *persistence.DeadFilter, limit int) (pgsql.Named, bool) {
	args, ok := deadArgs(f)
	args["after"], args["after_step"], args["limit"] = [16]byte(f.After.Run), f.After.Step, limit
	return args, ok
}

// ListDeadLetters implements persistence.DeadLetters.
func (s *Reader) ListDeadLetters(ctx context.Context, filter persistence.DeadFilter) ([]persistence.DeadLetter, error) {
	ctx, leave, err := s.LargeCaller(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	args, ok := pageArgs(&filter, filter.Page())
	if !ok {
		return nil, nil
	}
	name := "list_dead_letters"
	if filter.Newest {
		name += "_newest"
		if filter.After == (workflow.TaskID{}) { // behind all
			args["after"], args["after_step"] = [16]byte(bytes.Repeat([]byte{0xff}, 16)), int32(math.MaxInt32)
		}
	}
	text, values := s.Bind(name, args)
	rows, err := s.Conns.Query(ctx, text, values...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (persistence.DeadLetter, error) { return scanDead(row) })
	return list, pgerr.Translate(err)
}

// scanDead reads parts/dead_columns.sql, and what a statement adds to it.
func scanDead(row pgx.CollectableRow, more ...any) (persistence.DeadLetter, error) {
	var (
		l                 persistence.DeadLetter
		hash, fingerprint []byte
		reason            int16
		class, text       *string
		started, requeued *time.Time
		as                *[16]byte
	)
	err := row.Scan(append([]any{
		(*[16]byte)(&l.Task.Run), &l.Task.Step, &hash, &l.Workflow, &l.Step, &fingerprint, &l.Queue, &l.Tenant, &reason, &class, &text,
		&l.Attempts, &l.Lost, &l.CreatedAt, &started, &l.DiedAt, &l.Requeues, &requeued, &as, &l.Handled,
	}, more...)...)
	copy(l.Definition[:], hash)
	copy(l.Handler[:], fingerprint)
	l.Reason, l.Class, l.Error = lifecycle.DeadReason(reason), pgsql.OrZero(class), pgsql.OrZero(text)
	l.StartedAt, l.RequeuedAt, l.RequeuedAs = pgsql.OrZero(started), pgsql.OrZero(requeued), pgsql.OrZero(as)
	return l, err
}

// CountDeadLetters implements persistence.DeadLetters.
func (s *Reader) CountDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	ctx, leave, err := s.LargeCaller(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	args, ok := deadArgs(&filter)
	if !ok {
		return 0, nil
	}
	text, values := s.Bind("count_dead_letters", args)
	var count int
	err = s.Conns.QueryRow(ctx, text, values...).Scan(&count)
	return count, pgerr.Translate(err)
}

// PurgeDeadLetters implements persistence.DeadLetters. It takes no slot of callers: the
// housekeeper calls it, which must not wait for callers.
func (s *Reader) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	args, ok := pageArgs(&filter, filter.Purge())
	if !ok {
		return 0, nil
	}
	text, values := s.Bind("purge_dead_letters", args)
	var count int
	err := s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var runs [][16]byte
		if err := tx.QueryRow(ctx, text, values...).Scan(&count, &runs); err != nil || count == 0 {
			return err
		}
		ids := make(pgsql.UUIDs, len(runs))
		for i, id := range runs {
			ids[i] = id
		}
		b := s.NewBatch()
		b.Add("lock_dead_inputs", pgsql.Named{"runs": ids})
		b.Add("purge_dead_inputs", pgsql.Named{"runs": ids})
		return pgsql.Send(ctx, tx, b)
	})
	return count, err
}

// DeadLetter implements persistence.DeadLetters.
func (s *Reader) DeadLetter(ctx context.Context, tenant string, task workflow.TaskID) (persistence.DeadDetail, error) {
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return persistence.DeadDetail{}, err
	}
	defer leave()
	var out persistence.DeadDetail
	if !pgsql.Storable(tenant) {
		return out, persistence.ErrDeadLetterNotFound
	}
	name := pgsql.Named{"run": [16]byte(task.Run), "step": task.Step}
	b := s.NewBatch()
	b.Add("read_dead_letter", pgsql.Named{"run": name["run"], "step": task.Step, "tenant": pgsql.TextOrNull(tenant)}).Query(func(rows pgx.Rows) error {
		letter, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (persistence.DeadLetter, error) {
			return scanDead(row, &out.RunKept, &out.Input)
		})
		out.DeadLetter = letter
		return err
	})
	b.Add("read_dead_events", pgsql.Named{"run": name["run"], "step": task.Step, "limit": persistence.HistoryMax}).Query(func(rows pgx.Rows) error {
		var err error
		out.Events, err = pgx.CollectRows(rows, scanEvent)
		return err
	})
	var parents pgsql.Outcomes
	b.Add("read_dead_parents", pgsql.Named{"run": name["run"], "step": task.Step, "inline_max": persistence.InlinePayloadMax, "outputs": true}).Query(
		func(rows pgx.Rows) error { return parents.Collect(rows) })
	err = pgsql.Send(ctx, s.Conns, b)
	if errors.Is(err, pgx.ErrNoRows) {
		return persistence.DeadDetail{}, persistence.ErrDeadLetterNotFound
	}
	if err != nil {
		return persistence.DeadDetail{}, pgerr.Translate(err)
	}
	graph, err := s.Graphs.Definition(ctx, out.Definition)
	if graph != nil {
		out.Parents = parents.List(graph, nil)
	}
	return out, err
}
