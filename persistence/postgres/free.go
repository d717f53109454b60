package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/workflow"
)

// Once a lock was not granted in time, what a leader does at most so many of in one
// call is chosen among what can be had without a wait: else as much of what somebody
// holds would hide all the rest until it is given back.

// freeMax is how many timers at most are looked at for some whose runs nobody holds.
const freeMax = 10_000

// chooseTimers chooses timers that are due.
func (s *Store) chooseTimers(ctx context.Context, tx pgx.Tx, along walk, mode locking) (walked, error) {
	if mode == lockWaiting {
		return s.dueTimers(ctx, tx, along)
	}
	limit := along.limit
	along.limit = max(min(along.most, freeMax), limit)
	w, err := s.dueTimers(ctx, tx, along)
	if err != nil {
		return w, err
	}
	chosen, cut := w.due, w.over
	w.due, err = firstFree(ctx, s.newPass(tx), chosen, func(t dueTimer) workflow.RunID { return t.Run }, limit)
	if w.over = len(w.due) > 0 && len(w.due) >= limit; cut && !w.over {
		w.full, w.last = true, chosen[len(chosen)-1].wakeAt
	}
	return w, err
}

// chooseHeld chooses tasks of dead pods, by pod, of which there may be more than given if
// those are more than the limit. left are the pods of which it does not choose all.
func (s *Store) chooseHeld(
	ctx context.Context, tx pgx.Tx, pods []int64, held []heldTask, limit int, mode locking,
) (chosen []heldTask, left map[int64]bool, err error) {
	left = map[int64]bool{}
	if mode == lockWaiting {
		for _, pod := range pods {
			left[pod] = len(held) > limit && pod >= held[limit].pod
		}
		return held[:min(len(held), limit)], left, nil
	}
	chosen, err = firstFree(ctx, s.newPass(tx), held, func(h heldTask) workflow.RunID { return h.task.Run }, limit)
	count := map[int64]int{}
	for _, h := range chosen {
		count[h.pod]++
	}
	for _, h := range held {
		count[h.pod]--
		left[h.pod] = left[h.pod] || count[h.pod] < 0
	}
	return chosen, left, err
}

// firstFree returns the first things, up to a limit, of runs that can be had without a
// wait and of tenants whose counters nobody holds, and locks these runs.
func firstFree[T any](ctx context.Context, p *pass, things []T, run func(T) workflow.RunID, limit int) (free []T, err error) {
	for n := 2 * limit; len(things) > 0 && len(free) < limit; n *= 4 {
		some := things[:min(n, len(things))]
		things = things[len(some):]
		ids := make(uuids, len(some))
		for i := range some {
			ids[i] = run(some[i])
		}
		locked, err := p.lockSome(ctx, ids, limit-len(free))
		if err != nil {
			return nil, err
		}
		for _, thing := range some {
			if locked[run(thing)] && len(free) < limit {
				free = append(free, thing)
			}
		}
	}
	return free, nil
}

// lockSome locks the first of the runs for which that takes no wait, and returns them.
func (p *pass) lockSome(ctx context.Context, ids uuids, limit int) (map[workflow.RunID]bool, error) {
	held, err := p.heldRuns(ctx, ids)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id workflow.RunID) bool { return held[id] })
	text, args := p.s.statements.bind("lock_some_free", named{"runs": ids, "limit": limit})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return runSet(rows)
}
