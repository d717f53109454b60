package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

// endUnread ends sessions that hold locks while they send an answer that is not read, and reports
// whether there were any.
func (s *Store) endUnread(ctx context.Context, by time.Time) (ended bool, err error) {
	text, args := s.Bind("end_unread", pgsql.Named{
		"given_up": s.callDeadline.Microseconds(), "by": pgsql.Instant(by), "schema": s.Quoted(),
	})
	var count int
	err = s.Conns.QueryRow(ctx, text, args...).Scan(&count)
	return count > 0, pgerr.Translate(err)
}

// declareDead declares pods dead whose leases have run out, by an instant, and returns those that
// are, and how many have died lately.
func (s *Store) declareDead(ctx context.Context, tx pgx.Tx, by time.Time) (pods []int64, deaths lifecycle.Deaths, err error) {
	text, args := s.Bind("expire_pods", pgsql.Named{
		"kept": persistence.DeathsKept.Microseconds(), "lately": persistence.DeathsLately.Microseconds(), "max": persistence.DeathsMax, "by": pgsql.Instant(by),
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, deaths, err
	}
	pods, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (pod int64, err error) {
		return pod, row.Scan(&pod, &deaths.Lately, &deaths.Kept)
	})
	slices.Sort(pods)
	return pods, deaths, err
}

// keepingPods returns the pods that hold tasks of runs that rest.
func (s *Store) keepingPods(ctx context.Context, tx pgx.Tx, pods []int64, without quarantine.Exclusions) ([]int64, error) {
	if !without.Any() {
		return nil, nil
	}
	text, args := s.Bind("keeping_pods", pgsql.Named{
		"pods": pods, "skip": pgsql.OrEmpty(without.Runs), "but": pgsql.OrEmpty(without.Counters), "foreign": pgsql.OrEmpty(without.Definitions),
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// closeExpiry removes the pods of which nothing is left and counts the rest.
func (s *Store) closeExpiry(ctx context.Context, tx pgx.Tx, gone []int64, out *persistence.Expired) error {
	b := s.NewBatch()
	if len(gone) > 0 {
		b.Add("delete_pods", pgsql.Named{"pods": gone})
	}
	b.Add("count_pods", pgsql.Named{}).QueryRow(func(row pgx.Row) error {
		var next *time.Time
		err := row.Scan(&out.Live, &next)
		out.NextExpiry = pgsql.OrZero(next)
		return err
	})
	return pgsql.Send(ctx, tx, b)
}

// ParkTasks implements persistence.Housekeeping.
func (s *Store) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	var out persistence.Parked
	if some, err := s.precheckLed(ctx, "has_work_parking", epoch, pgsql.Named{}); err != nil || !some {
		return out, err
	}
	err := s.Fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		out, err = s.park(ctx, tx, limit)
		return err
	})
	if err != nil {
		return persistence.Parked{}, err
	}
	return out, nil
}

func (s *Store) park(ctx context.Context, tx pgx.Tx, limit int) (persistence.Parked, error) {
	var out persistence.Parked
	p := s.newDecisionTx(tx)
	b := s.NewBatch()
	b.Add("park_tasks", pgsql.Named{"limit": limit}).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Parked) })
	b.Add("parked_tasks", pgsql.Named{"limit": limit}).Query(func(rows pgx.Rows) error {
		var err error
		p.enqueued, err = pgx.CollectRows(rows, scanParked)
		return err
	})
	b.Add("parked_work", pgsql.Named{"most": persistence.ParkedCountMax, "limit": persistence.ParkedWorkMax}).Query(func(rows pgx.Rows) error {
		var err error
		out.Work, err = pgx.CollectRows(rows, scanParkedWork)
		return err
	})
	if err := pgsql.Send(ctx, tx, b); err != nil {
		return out, err
	}
	if len(p.enqueued) == 0 {
		return out, nil
	}
	if err := p.allot(ctx); err != nil {
		return out, err
	}
	out.Unparked, out.Wake = len(p.enqueued), p.wake
	b = s.NewBatch()
	var ids pgsql.UUIDs
	var steps []int32
	for _, e := range p.enqueued {
		ids, steps = append(ids, e.run.id), append(steps, e.step)
	}
	b.Add("delete_parked", pgsql.Named{"runs": ids, "steps": steps})
	p.queueReady(b)
	return out, pgsql.Send(ctx, tx, b)
}

// scanParkedWork reads a row of parked_work.
func scanParkedWork(row pgx.CollectableRow) (work persistence.ParkedWork, err error) {
	var hash []byte
	err = row.Scan(&work.Workflow, &work.Step, &hash, &work.Tasks)
	copy(work.Definition[:], hash)
	return work, err
}

// scanParked reads a row of parked_tasks as something to enqueue, at its old
// place or, if that has been served, at the end of its tenant's rows.
func scanParked(row pgx.CollectableRow) (enqueued, error) {
	e := enqueued{run: &run{}}
	var place int64
	var stands bool
	err := row.Scan((*[16]byte)(&e.run.id), &e.step, &e.queue, &e.handler, &place, &e.suspect, &stands)
	e.run.group, e.lane, _ = lifecycle.SplitFairID(place)
	if stands {
		e.place = place
	}
	return e, err
}

// BumpEpoch implements persistence.Leadership.
func (s *Store) BumpEpoch(ctx context.Context, holder int64) (epoch int64, err error) {
	text, args := s.Bind("bump_epoch", pgsql.Named{"holder": holder})
	err = pgerr.Retry(ctx, func(ctx context.Context) error { return s.Conns.QueryRow(ctx, text, args...).Scan(&epoch) })
	return epoch, err
}

// WakeParents implements persistence.Housekeeping.
func (s *Store) WakeParents(ctx context.Context, epoch int64, after workflow.TaskID, limit int) (out persistence.Woken, err error) {
	args := pgsql.Named{"run": [16]byte(after.Run), "step": after.Step}
	some, err := s.precheckLed(ctx, "has_work_parents", epoch, args)
	if err != nil || !some {
		return out, err
	}
	args["limit"] = limit
	err = s.Fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		var last pgtype.UUID
		var step *int32
		text, values := s.Bind("wake_parents", args)
		err := tx.QueryRow(ctx, text, values...).Scan(&out.Count, &last, &step)
		out.Next, out.Wake.Submitted = workflow.TaskID{Run: last.Bytes, Step: pgsql.OrZero(step)}, out.Count > 0
		return err
	})
	if err != nil {
		return persistence.Woken{}, err
	}
	return out, nil
}
