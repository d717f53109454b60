package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ExpirePods implements persistence.Housekeeping. Tasks of runs that somebody
// holds for too long are left for the next call.
func (s *Store) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	out, late, unread, err := s.lookPods(ctx, epoch, by)
	if err == nil && unread {
		_, _ = s.endUnread(ctx, by) // as below
	}
	if err != nil || !late {
		return out, err
	}
	s.passedOver(ctx)
	unlisted := false // what cannot be read was met before any task was
	used, err := s.around(ctx, limit, func(limit int) (first workflow.RunID, err error) {
		err = s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, mode locking) error {
			var err error
			out, first, err = s.expire(ctx, tx, maxLost, limit, by, mode)
			return err
		})
		unlisted = first.IsZero()
		return first, err
	})
	if unreadable(err) && unlisted {
		out, err = s.expireBlind(ctx, epoch, maxLost, limit, by)
		used = limit
	}
	if err != nil {
		return persistence.Expired{}, err
	}
	if used < limit && out.Tasks >= used { // there is more
		out.NextExpiry = out.Now
	}
	// Without these their locks stay for longer; the next call tries again.
	_ = s.endSteps(ctx, out.Pods)
	if ended, err := s.endUnread(ctx, by); err == nil && ended {
		out.NextExpiry = out.Now
	}
	return out, nil
}

// quoted is the schema as statements name it.
func (s *Store) quoted() string { return pgx.Identifier{s.schema}.Sanitize() }

// endUnread ends sessions that hold locks while they send what nobody reads, and reports
// whether there were any.
func (s *Store) endUnread(ctx context.Context, by time.Time) (ended bool, err error) {
	text, args := s.statements.bind("end_unread", named{
		"given_up": s.givenUp.Microseconds(), "by": instant(by), "schema": s.quoted(),
	})
	var count int
	err = s.pool.QueryRow(ctx, text, args...).Scan(&count)
	return count > 0, translate(err)
}

// expire takes back what dead pods hold. first is the run of the first task of it.
func (s *Store) expire(
	ctx context.Context, tx pgx.Tx, maxLost, limit int, by time.Time, mode locking,
) (out persistence.Expired, first workflow.RunID, err error) {
	var deaths lifecycle.Deaths
	if out.Pods, deaths, err = s.declareDead(ctx, tx, by); err != nil {
		return out, first, err
	}
	var taken []heldTask
	var keeping []int64
	left := map[int64]bool{}
	if len(out.Pods) > 0 {
		skip, choice := s.skips(), mode
		if s.runless.Load() {
			choice = lockCalm
		}
		if taken, left, err = s.chooseHeld(ctx, tx, out.Pods, skip, limit, choice); err != nil {
			return out, first, err
		}
		if keeping, err = s.keepingPods(ctx, tx, out.Pods, skip); err != nil {
			return out, first, err
		}
	}
	if len(taken) > 0 {
		first = taken[0].task.Run
	}
	report := lifecycle.TaskReported{Kind: lifecycle.Lost, MaxLost: int32(maxLost), Deaths: deaths}
	p, err := s.takeBack(ctx, tx, s.newBatch(), taken, report, mode)
	if err != nil {
		return out, first, err
	}
	runless := false
	for _, h := range taken {
		if p.byID[h.task.Run] != nil {
			out.Tasks++
			continue
		}
		left[h.pod] = true
		runless = runless || !p.left[h.task.Run]
	}
	free := slices.DeleteFunc(slices.Clone(out.Pods), func(pod int64) bool { return left[pod] })
	gone := slices.DeleteFunc(slices.Clone(free), func(pod int64) bool { return slices.Contains(keeping, pod) })
	switch {
	case runless: // of runs that are not there: as many of them would be all that a call chooses
		s.runless.Store(true)
	case len(free) == len(out.Pods):
		s.runless.Store(false)
	}
	out.Now, out.Wake = p.now, p.wake
	err = s.closeExpiry(ctx, tx, gone, &out)
	if len(free) < len(out.Pods) && out.Tasks < limit { // what somebody holds is looked at again soon
		out.NextExpiry = out.Now.Add(heldAgain)
	}
	return out, first, err
}

// heldAgain is after how long a leader looks again at the tasks of a dead pod that
// somebody else held.
const heldAgain = 500 * time.Millisecond

// declareDead declares pods dead whose leases have run out, by an instant, and returns those that
// are, and how many have died lately.
func (s *Store) declareDead(ctx context.Context, tx pgx.Tx, by time.Time) (pods []int64, deaths lifecycle.Deaths, err error) {
	text, args := s.statements.bind("expire_pods", named{
		"kept": persistence.DeathsKept.Microseconds(), "lately": persistence.DeathsLately.Microseconds(), "max": persistence.DeathsMax, "by": instant(by),
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

// keepingPods returns the pods that hold tasks of runs that are passed over.
func (s *Store) keepingPods(ctx context.Context, tx pgx.Tx, pods []int64, skip skips) ([]int64, error) {
	if len(skip.runs)+len(skip.definitions) == 0 {
		return nil, nil
	}
	text, args := s.statements.bind("keeping_pods", named{
		"pods": pods, "skip": orEmpty(skip.runs), "foreign": orEmpty(skip.definitions),
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// closeExpiry removes the pods of which nothing is left and counts the rest.
func (s *Store) closeExpiry(ctx context.Context, tx pgx.Tx, gone []int64, out *persistence.Expired) error {
	b := s.newBatch()
	if len(gone) > 0 {
		b.add("delete_pods", named{"pods": gone})
	}
	b.add("count_pods", named{}).QueryRow(func(row pgx.Row) error {
		var next *time.Time
		err := row.Scan(&out.Live, &next)
		out.NextExpiry = orZero(next)
		return err
	})
	return send(ctx, tx, b)
}

// ParkTasks implements persistence.Housekeeping.
func (s *Store) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	var out persistence.Parked
	if some, err := s.lookParking(ctx, epoch); err != nil || !some {
		return out, err
	}
	err := s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, _ locking) error {
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
	p := s.newPass(tx)
	b := s.newBatch()
	b.add("park_tasks", named{"limit": limit}).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Parked) })
	b.add("parked_tasks", named{"limit": limit}).Query(func(rows pgx.Rows) error {
		var err error
		p.enqueued, err = pgx.CollectRows(rows, scanParked)
		return err
	})
	if err := send(ctx, tx, b); err != nil {
		return out, err
	}
	if len(p.enqueued) == 0 {
		return out, nil
	}
	if err := p.allot(ctx); err != nil {
		return out, err
	}
	out.Unparked, out.Wake = len(p.enqueued), p.wake
	b = s.newBatch()
	var ids uuids
	var steps []int32
	for _, e := range p.enqueued {
		ids, steps = append(ids, e.run.id), append(steps, e.step)
	}
	b.add("delete_parked", named{"runs": ids, "steps": steps})
	p.queueReady(b)
	return out, send(ctx, tx, b)
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
