package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// deadArgs are the arguments of parts/dead_filter.sql; false: nothing can match.
func deadArgs(f *persistence.DeadFilter) (named, bool) {
	reasons := make([]int16, len(f.Reasons))
	for i, r := range f.Reasons {
		reasons[i] = int16(r)
	}
	return named{
		"tenant": textOrNull(f.Tenant), "workflow": textOrNull(f.Workflow), "step": textOrNull(f.Step), "reasons": reasons,
		"older": max(f.OlderThan, 0).Microseconds(), "by": instant(f.By), "younger": max(f.YoungerThan, 0).Microseconds(), "requeued": int16(f.Requeued),
	}, storable(f.Tenant) && storable(f.Workflow) && storable(f.Step)
}

// pageArgs are deadArgs with where a page begins and how long it is.
func pageArgs(f *persistence.DeadFilter, limit int) (named, bool) {
	args, ok := deadArgs(f)
	args["after"], args["after_step"], args["limit"] = [16]byte(f.After.Run), f.After.Step, limit
	return args, ok
}

// ListDeadLetters implements persistence.DeadLetters.
func (s *Store) ListDeadLetters(ctx context.Context, filter persistence.DeadFilter) ([]persistence.DeadLetter, error) {
	ctx, leave, err := s.largeGuest(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	args, ok := pageArgs(&filter, filter.Page())
	if !ok {
		return nil, nil
	}
	text, values := s.statements.bind("list_dead_letters", args)
	rows, err := s.pool.Query(ctx, text, values...)
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (persistence.DeadLetter, error) { return scanDead(row) })
	return list, translate(err)
}

// scanDead reads parts/dead_columns.sql, and what a statement adds to it.
func scanDead(row pgx.CollectableRow, more ...any) (persistence.DeadLetter, error) {
	var (
		l                 persistence.DeadLetter
		hash              []byte
		reason            int16
		class, text       *string
		started, requeued *time.Time
		as                *[16]byte
	)
	err := row.Scan(append([]any{
		(*[16]byte)(&l.Task.Run), &l.Task.Step, &hash, &l.Workflow, &l.Step, &l.Tenant, &reason, &class, &text, &l.Attempts, &l.Lost,
		&l.CreatedAt, &started, &l.DiedAt, &l.Requeues, &requeued, &as,
	}, more...)...)
	copy(l.Definition[:], hash)
	l.Reason, l.Class, l.Error = lifecycle.DeadReason(reason), orZero(class), orZero(text)
	l.StartedAt, l.RequeuedAt, l.RequeuedAs = orZero(started), orZero(requeued), orZero(as)
	return l, err
}

// CountDeadLetters implements persistence.DeadLetters.
func (s *Store) CountDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	ctx, leave, err := s.largeGuest(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	args, ok := deadArgs(&filter)
	if !ok {
		return 0, nil
	}
	text, values := s.statements.bind("count_dead_letters", args)
	var count int
	err = s.pool.QueryRow(ctx, text, values...).Scan(&count)
	return count, translate(err)
}

// PurgeDeadLetters implements persistence.DeadLetters. It is no guest: the
// housekeeper calls it, who has pods to look after.
func (s *Store) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	args, ok := pageArgs(&filter, filter.Purge())
	if !ok {
		return 0, nil
	}
	text, values := s.statements.bind("purge_dead_letters", args)
	var count int
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var runs [][16]byte
		if err := tx.QueryRow(ctx, text, values...).Scan(&count, &runs); err != nil || count == 0 {
			return err
		}
		ids := make(uuids, len(runs))
		for i, id := range runs {
			ids[i] = id
		}
		b := s.newBatch()
		b.add("lock_dead_inputs", named{"runs": ids})
		b.add("purge_dead_inputs", named{"runs": ids})
		return send(ctx, tx, b)
	})
	return count, err
}

// DeadLetter implements persistence.DeadLetters.
func (s *Store) DeadLetter(ctx context.Context, tenant string, task workflow.TaskID) (persistence.DeadDetail, error) {
	ctx, leave, err := s.guest(ctx)
	if err != nil {
		return persistence.DeadDetail{}, err
	}
	defer leave()
	var out persistence.DeadDetail
	if !storable(tenant) {
		return out, persistence.ErrDeadLetterNotFound
	}
	name := named{"run": [16]byte(task.Run), "step": task.Step}
	b := s.newBatch()
	b.add("read_dead_letter", named{"run": name["run"], "step": task.Step, "tenant": textOrNull(tenant)}).Query(func(rows pgx.Rows) error {
		letter, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (persistence.DeadLetter, error) {
			return scanDead(row, &out.RunKept, &out.Input)
		})
		out.DeadLetter = letter
		return err
	})
	b.add("read_dead_events", named{"run": name["run"], "step": task.Step, "limit": persistence.HistoryMax}).Query(func(rows pgx.Rows) error {
		var err error
		out.Events, err = pgx.CollectRows(rows, scanEvent)
		return err
	})
	var parents outcomeColumns
	b.add("read_dead_parents", named{"run": name["run"], "step": task.Step, "inline_max": persistence.InlinePayloadMax, "outputs": true}).Query(
		func(rows pgx.Rows) error { return parents.collect(rows) })
	err = send(ctx, s.pool, b)
	if errors.Is(err, pgx.ErrNoRows) {
		return persistence.DeadDetail{}, persistence.ErrDeadLetterNotFound
	}
	if err != nil {
		return persistence.DeadDetail{}, translate(err)
	}
	found, err := s.definitions(ctx, []workflow.Hash{out.Definition})
	if err != nil || found[out.Definition] == nil {
		return out, err
	}
	out.Parents = parents.list(found[out.Definition])
	return out, nil
}

// collect reads the rows of read_dead_parents.
func (c *outcomeColumns) collect(rows pgx.Rows) error {
	var (
		step, size  int32
		state       int16
		output      []byte
		class, text *string
	)
	_, err := pgx.ForEachRow(rows, []any{&step, &state, &size, &output, &class, &text}, func() error {
		c.steps, c.states, c.sizes = append(c.steps, step), append(c.states, state), append(c.sizes, size)
		c.outputs = append(c.outputs, append([]byte(nil), output...))
		c.classes, c.errors = append(c.classes, class), append(c.errors, text)
		return nil
	})
	return err
}
