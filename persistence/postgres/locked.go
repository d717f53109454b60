package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Once a lock was not granted in time, the store looks for locked rows with "skip locked",
// and leaves out the runs that they belong to: after each wait that comes to nothing,
// before it uses a run again that has rested, and before it claims tasks, since their ends
// could not be recorded. Other transactions do not wait for long meanwhile. Rows that
// other transactions of the engine use are locked for moments: a run counts as locked if
// all of several looks find a row of it locked.

const (
	// looksMax and lookPause are how often, and after what pause, rows are looked at
	// before they count as locked.
	looksMax  = 4
	lookPause = 35 * time.Millisecond
	// skipPatience is how long a transaction waits for a lock that was not found.
	skipPatience = "set local lock_timeout = '300ms'"
	// counterPatience is how long the counters of a tenant are waited for before they
	// count as locked. They are in use all the time: a look says little.
	counterPatience = "set local lock_timeout = '100ms'"
)

// try runs do in a transaction that is rolled back.
func (s *Store) try(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.Conns, func(tx pgx.Tx) error {
			if err := do(ctx, tx); err != nil {
				return err
			}
			return pgerr.ErrTrial
		})
	})
	if errors.Is(err, pgerr.ErrTrial) {
		return nil
	}
	return err
}

// leaveOut returns the runs of tasks that are not to be written now: those in quarantine,
// and those that have rested and turn out to be locked still, which rest again.
func (s *Store) leaveOut(ctx context.Context, tasks taskIDs) (left map[workflow.RunID]bool, err error) {
	left, over := s.quarantine.ofRuns(tasks)
	if s.quarantine.anyCounters() { // their tenants may have locked counters
		over = tasks.but(left)
	}
	if len(over) == 0 {
		return left, nil
	}
	err = s.try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := s.lookAt(ctx, tx, over)
		if err != nil {
			return err
		}
		left = union(left, s.rest(found))
		groups := groupsOf(found)
		resting, over := s.quarantine.lockedCounters(groups)
		again, err := s.lockedTenants(ctx, tx, over)
		if err != nil {
			return err
		}
		maps.Copy(resting, again)
		for run, look := range found {
			if resting[look.group] {
				left = union(left, map[workflow.RunID]bool{run: true})
			}
		}
		return nil
	})
	return left, err
}

// findLocked looks for what was waited for, after a lock on rows of tasks was not granted
// in time: it rests from now on.
func (s *Store) findLocked(ctx context.Context, tasks taskIDs) error {
	s.quarantine.lockTimeout(ctx)
	return s.try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := s.lookAt(ctx, tx, tasks)
		if err != nil {
			return err
		}
		s.rest(found)
		_, err = s.lockedTenants(ctx, tx, groupsOf(found))
		return err
	})
}

// findLockedOf is findLocked after a transaction that is not the engine's has waited for a
// lock. A run of which no lock is found rests all the same.
func (s *Store) findLockedOf(ctx context.Context, task workflow.TaskID) {
	if err := s.findLocked(ctx, taskIDs{task}); err == nil && !s.isLocked(ctx, task) {
		s.restTask(task)
	}
}

// isLocked reports whether the run of a task rests, or is locked. If that cannot be asked
// it is not known.
func (s *Store) isLocked(ctx context.Context, task workflow.TaskID) bool {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	left, err := s.leaveOut(ctx, taskIDs{task})
	return err == nil && left[task.Run]
}

// askMax is how long a step with a transaction waits to be told whether its run is
// locked.
const askMax = time.Second

// restAlone has the run of a task rest that is alone in a transaction which failed. It
// returns err if the run is not to blame for it.
func (s *Store) restAlone(ctx context.Context, task workflow.TaskID, err error) error {
	switch {
	case errors.Is(err, pgerr.ErrLockTimeout):
		s.restTask(task)
		return nil
	case pgerr.Unreadable(err) && s.damaged(ctx, task.Run):
		return s.quarantine.addUnreadable(ctx, task.Run, err)
	}
	return err
}

// damaged reports whether something of a run cannot be read, by itself.
func (s *Store) damaged(ctx context.Context, run workflow.RunID) bool {
	text, args := s.Bind("probe_run", pgsql.Named{"run": [16]byte(run)})
	var rows int64
	return pgerr.Unreadable(pgerr.Retry(ctx, func(ctx context.Context) error { return s.Conns.QueryRow(ctx, text, args...).Scan(&rows) }))
}

// restTask has the run of a task rest that is alone in a transaction and waits for a lock
// which no look has found.
func (s *Store) restTask(task workflow.TaskID) {
	s.quarantine.addLocked(map[workflow.RunID]int32{task.Run: 0})
}

// findLockedTenants looks for the tenants whose counters are locked, among some groups:
// they rest from now on.
func (s *Store) findLockedTenants(ctx context.Context, groups []int32) error {
	return s.try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.lockedTenants(ctx, tx, groups)
		return err
	})
}

// look is what was found of a run.
type look struct {
	group  int32 // of its tenant
	locked bool
}

// rest has the runs rest that are locked, and returns them.
func (s *Store) rest(found map[workflow.RunID]look) map[workflow.RunID]bool {
	groups, runs := map[workflow.RunID]int32{}, map[workflow.RunID]bool{}
	for run, look := range found {
		if look.locked {
			groups[run], runs[run] = look.group, true
		}
	}
	s.quarantine.addLocked(groups)
	return runs
}

func groupsOf(found map[workflow.RunID]look) (groups []int32) {
	for _, look := range found {
		if look.group != 0 && !slices.Contains(groups, look.group) {
			groups = append(groups, look.group)
		}
	}
	return groups
}

// lookAt looks whether another session has locked rows of tasks, of their children, or of
// their runs. Runs that are not there are not among the answers.
func (s *Store) lookAt(ctx context.Context, tx pgx.Tx, tasks taskIDs) (map[workflow.RunID]look, error) {
	all := make(map[workflow.RunID]look, len(tasks))
	for n := range looksMax {
		if len(tasks) == 0 {
			break
		}
		if n > 0 && !(clock.System{}).Pause(ctx, lookPause) {
			return nil, ctx.Err()
		}
		free := map[workflow.RunID]bool{}
		runs, steps := tasks.columns()
		err := s.glance(ctx, tx, "locked_runs", pgsql.Named{"runs": runs, "steps": steps}, func(rows pgx.Rows) error {
			var id workflow.RunID
			var one look
			_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &one.group, &one.locked}, func() error {
				all[id], free[id] = one, !one.locked
				return nil
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(task workflow.TaskID) bool {
			is, there := free[task.Run]
			return is || !there
		})
	}
	return all, nil
}

// glance reads what a statement returns that takes locks, and gives these back.
func (s *Store) glance(ctx context.Context, tx pgx.Tx, statement string, args pgsql.Named, read func(pgx.Rows) error) error {
	b := s.NewBatch()
	b.Queue("savepoint troupe_look")
	b.Add(statement, args).Query(read)
	b.Queue("rollback to savepoint troupe_look")
	b.Queue("release savepoint troupe_look")
	return pgsql.Send(ctx, tx, b)
}

// lockedTenants returns the groups, among some, of which another session has locked
// counters. They rest from now on; the others do not.
func (s *Store) lockedTenants(ctx context.Context, tx pgx.Tx, groups []int32) (map[int32]bool, error) {
	resting := map[int32]bool{}
	if len(groups) == 0 {
		return resting, nil
	}
	var suspects []int32
	err := s.glance(ctx, tx, "locked_tenants", pgsql.Named{"groups": groups}, func(rows pgx.Rows) (err error) {
		suspects, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, group := range suspects {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			if _, err := tx.Exec(ctx, counterPatience); err != nil {
				return err
			}
			if err := s.Exec(ctx, tx, "lock_counters", pgsql.Named{"group": group}); err != nil {
				return err
			}
			return pgerr.ErrTrial
		})
		switch {
		case pgerr.HasCode(err, pgerr.CodeLockNotAvailable):
			resting[group] = true
		case !errors.Is(err, pgerr.ErrTrial):
			return nil, err
		}
	}
	s.quarantine.addCounters(slices.Collect(maps.Keys(resting)))
	s.quarantine.unlockCounters(slices.DeleteFunc(slices.Clone(groups), func(group int32) bool { return resting[group] }))
	return resting, nil
}

// union adds to a set of runs, which may be nil.
func union(into, more map[workflow.RunID]bool) map[workflow.RunID]bool {
	if into == nil {
		return more
	}
	maps.Copy(into, more)
	return into
}
