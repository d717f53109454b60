package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/workflow"
)

// A leader fires timers and takes tasks over a bounded number at a time. Once a lock was
// not granted in time, or dead pods hold tasks of runs that are not there, it chooses only
// those that can be had without a wait: otherwise as many others would hide them.

// freeShare is how many times as many as may be chosen are looked at first, before all
// there is.
const freeShare = 8

// chooseTimers chooses timers that are due. Where it finds too few that can be had, it has
// looked at all that the walk came past.
func (s *Store) chooseTimers(ctx context.Context, tx pgx.Tx, along walk, mode locking) (w walked, err error) {
	if mode == lockWaiting {
		return s.dueTimers(ctx, tx, along)
	}
	limit := along.limit
	for _, most := range []int{min(freeShare*limit, along.most), along.most} {
		along.limit = most
		if w, err = s.dueTimers(ctx, tx, along); err != nil {
			return w, err
		}
		all := !w.over || most == along.most
		w.due, err = firstFree(ctx, s.passIn(tx, mode), w.due, dueTimer.needs, limit)
		if w.over = len(w.due) > 0 && len(w.due) >= limit; err != nil || w.over || all {
			return w, err
		}
	}
	return w, nil
}

// chooseHeld chooses tasks that dead pods hold, by pod, but what is passed over. left are
// the pods that hold others, too.
func (s *Store) chooseHeld(
	ctx context.Context, tx pgx.Tx, pods []int64, skip skips, limit int, mode locking,
) (chosen []heldTask, left map[int64]bool, err error) {
	mosts := []int{limit}
	if mode != lockWaiting {
		mosts = []int{freeShare * limit, math.MaxInt32 - 1}
	}
	for _, most := range mosts {
		held, err := s.heldTasks(ctx, tx, pods, skip, most+1, false)
		if err != nil {
			return nil, nil, err
		}
		if chosen = held[:min(len(held), most)]; mode != lockWaiting {
			chosen, err = firstFree(ctx, s.passIn(tx, mode), chosen, func(h heldTask) workflow.TaskID { return h.task }, limit)
			if err != nil {
				return nil, nil, err
			}
		}
		left = unchosen(held, chosen)
		if len(held) <= most {
			break
		}
		for _, pod := range pods { // they are listed by pod
			left[pod] = left[pod] || pod >= held[most].pod
		}
		if len(chosen) >= limit {
			break
		}
	}
	return chosen, left, nil
}

// unchosen returns the pods of which not all held tasks were chosen.
func unchosen(held, chosen []heldTask) map[int64]bool {
	count := map[int64]int{}
	for _, h := range chosen {
		count[h.pod]++
	}
	left := map[int64]bool{}
	for _, h := range held {
		count[h.pod]--
		left[h.pod] = left[h.pod] || count[h.pod] < 0
	}
	return left
}

// firstFree returns the first things, up to a limit, of tasks of which nobody holds what
// they need and of tenants whose counters nobody holds, and locks their runs.
func firstFree[T any](ctx context.Context, p *pass, things []T, task func(T) workflow.TaskID, limit int) (free []T, err error) {
	var held uuids
	for n := 2 * limit; len(things) > 0 && len(free) < limit; n *= 4 {
		some := things[:min(n, len(things))]
		things = things[len(some):]
		tasks := make(taskIDs, len(some))
		for i := range some {
			tasks[i] = task(some[i])
		}
		locked, err := p.lockSome(ctx, tasks, limit-len(free))
		if err != nil {
			return nil, err
		}
		for i, thing := range some {
			if len(free) == limit {
				break
			}
			if locked[tasks[i].Run] {
				free = append(free, thing)
			} else if len(held) < holdersTold {
				held = append(held, tasks[i].Run)
			}
		}
	}
	if p.mode != lockStrict {
		return free, nil
	}
	return free, p.meetHolders(ctx, held)
}

// passIn returns a pass whose looks are as the mode says.
func (s *Store) passIn(tx pgx.Tx, mode locking) *pass {
	p := s.newPass(tx)
	p.mode = mode
	return p
}

// lockSome locks the runs of the first of the tasks for which that takes no wait, and
// returns them.
func (p *pass) lockSome(ctx context.Context, tasks taskIDs, limit int) (map[workflow.RunID]bool, error) {
	held, err := p.heldRuns(ctx, tasks, p.mode == lockStrict)
	if err != nil {
		return nil, err
	}
	text, args := p.s.statements.bind("lock_some_free", named{"runs": tasks.but(held).runs(), "limit": limit})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return runSet(rows)
}
