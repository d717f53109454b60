package quarantine

import (
	"context"
	"errors"
	"log/slog"
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
	// SkipPatience is how long a transaction waits for a lock that was not found.
	SkipPatience = "set local lock_timeout = '300ms'"
	// counterPatience is how long the counters of a tenant are waited for before they
	// count as locked. They are in use all the time: a look says little.
	counterPatience = "set local lock_timeout = '100ms'"
)

// Locks finds what other sessions have locked. It is safe for concurrent use.
type Locks struct {
	*pgsql.DB
	*Quarantine
}

// NewLocks returns what finds locks in a database.
func NewLocks(db *pgsql.DB, log *slog.Logger) *Locks { return &Locks{db, New(log)} }

// Damaged reports whether something of a run cannot be read, by itself.
func (l *Locks) Damaged(ctx context.Context, run workflow.RunID) bool {
	text, args := l.Bind("probe_run", pgsql.Named{"run": [16]byte(run)})
	var rows int64
	return pgerr.Unreadable(pgerr.Retry(ctx, func(ctx context.Context) error { return l.Conns.QueryRow(ctx, text, args...).Scan(&rows) }))
}

// LeaveOut returns the runs of tasks that are not to be written now: those in quarantine,
// and those that have rested and turn out to be locked still, which rest again.
func (l *Locks) LeaveOut(ctx context.Context, tasks []workflow.TaskID) (left map[workflow.RunID]bool, err error) {
	left, over := l.OfRuns(tasks)
	if l.AnyCounters() { // their tenants may have locked counters
		over = slices.DeleteFunc(slices.Clone(tasks), func(t workflow.TaskID) bool { return left[t.Run] })
	}
	if len(over) == 0 {
		return left, nil
	}
	err = l.Try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := l.LookAt(ctx, tx, over)
		if err != nil {
			return err
		}
		left = Union(left, l.Rest(found))
		groups := groupsOf(found)
		resting, over := l.LockedCounters(groups)
		again, err := l.LockedTenants(ctx, tx, over)
		if err != nil {
			return err
		}
		maps.Copy(resting, again)
		for run, look := range found {
			if resting[look.Group] {
				left = Union(left, map[workflow.RunID]bool{run: true})
			}
		}
		return nil
	})
	return left, err
}

// FindLocked looks for what was waited for, after a lock on rows of tasks was not granted
// in time: it rests from now on.
func (l *Locks) FindLocked(ctx context.Context, tasks []workflow.TaskID) error {
	l.LockTimeout(ctx)
	return l.Try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := l.LookAt(ctx, tx, tasks)
		if err != nil {
			return err
		}
		l.Rest(found)
		_, err = l.LockedTenants(ctx, tx, groupsOf(found))
		return err
	})
}

// FindLockedOf is FindLocked after a transaction that is not the engine's has waited for a
// lock. A run of which no lock is found rests all the same.
func (l *Locks) FindLockedOf(ctx context.Context, task workflow.TaskID) {
	if err := l.FindLocked(ctx, []workflow.TaskID{task}); err == nil && !l.IsLocked(ctx, task) {
		l.RestTask(task)
	}
}

// IsLocked reports whether the run of a task rests, or is locked. If that cannot be asked
// it is not known.
func (l *Locks) IsLocked(ctx context.Context, task workflow.TaskID) bool {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	left, err := l.LeaveOut(ctx, []workflow.TaskID{task})
	return err == nil && left[task.Run]
}

// askMax is how long a step with a transaction waits to be told whether its run is
// locked.
const askMax = time.Second

// RestAlone has the run of a task rest that is alone in a transaction which failed. It
// returns err if the run is not to blame for it.
func (l *Locks) RestAlone(ctx context.Context, task workflow.TaskID, err error) error {
	switch {
	case errors.Is(err, pgerr.ErrLockTimeout):
		l.RestTask(task)
		return nil
	case errors.Is(err, pgerr.ErrUndecided), pgerr.Unreadable(err) && l.Damaged(ctx, task.Run):
		return l.AddUnreadable(ctx, task.Run, err)
	}
	return err
}

// RestTask has the run of a task rest that is alone in a transaction and waits for a lock
// which no look has found.
func (l *Locks) RestTask(task workflow.TaskID) {
	l.AddLocked(map[workflow.RunID]int32{task.Run: 0})
}

// FindLockedTenants looks for the tenants whose counters are locked, among some groups:
// they rest from now on.
func (l *Locks) FindLockedTenants(ctx context.Context, groups []int32) error {
	return l.Try(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := l.LockedTenants(ctx, tx, groups)
		return err
	})
}

// Look is what was found of a run.
type Look struct {
	Group  int32 // of its tenant
	Locked bool
}

// Rest has the runs rest that are locked, and returns them.
func (l *Locks) Rest(found map[workflow.RunID]Look) map[workflow.RunID]bool {
	groups, runs := map[workflow.RunID]int32{}, map[workflow.RunID]bool{}
	for run, look := range found {
		if look.Locked {
			groups[run], runs[run] = look.Group, true
		}
	}
	l.AddLocked(groups)
	return runs
}

func groupsOf(found map[workflow.RunID]Look) (groups []int32) {
	for _, look := range found {
		if look.Group != 0 && !slices.Contains(groups, look.Group) {
			groups = append(groups, look.Group)
		}
	}
	return groups
}

// LookAt looks whether another session has locked rows of tasks, of their children, or of
// their runs. Runs that are not there are not among the answers.
func (l *Locks) LookAt(ctx context.Context, tx pgx.Tx, tasks []workflow.TaskID) (map[workflow.RunID]Look, error) {
	all := make(map[workflow.RunID]Look, len(tasks))
	for n := range looksMax {
		if len(tasks) == 0 {
			break
		}
		if n > 0 && !(clock.System{}).Pause(ctx, lookPause) {
			return nil, ctx.Err()
		}
		free := map[workflow.RunID]bool{}
		runs, steps := pgsql.Columns(tasks)
		err := l.glance(ctx, tx, "locked_runs", pgsql.Named{"runs": runs, "steps": steps}, func(rows pgx.Rows) error {
			var id workflow.RunID
			var one Look
			_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &one.Group, &one.Locked}, func() error {
				all[id], free[id] = one, !one.Locked
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
func (l *Locks) glance(ctx context.Context, tx pgx.Tx, statement string, args pgsql.Named, read func(pgx.Rows) error) error {
	b := l.NewBatch()
	b.Queue("savepoint troupe_look")
	b.Add(statement, args).Query(read)
	b.Queue("rollback to savepoint troupe_look")
	b.Queue("release savepoint troupe_look")
	return pgsql.Send(ctx, tx, b)
}

// LockedTenants returns the groups, among some, of which another session has locked
// counters. They rest from now on; the others do not.
func (l *Locks) LockedTenants(ctx context.Context, tx pgx.Tx, groups []int32) (map[int32]bool, error) {
	resting := map[int32]bool{}
	if len(groups) == 0 {
		return resting, nil
	}
	var suspects []int32
	err := l.glance(ctx, tx, "locked_tenants", pgsql.Named{"groups": groups}, func(rows pgx.Rows) (err error) {
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
			if err := l.Exec(ctx, tx, "lock_counters", pgsql.Named{"group": group}); err != nil {
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
	l.AddCounters(slices.Collect(maps.Keys(resting)))
	l.UnlockCounters(slices.DeleteFunc(slices.Clone(groups), func(group int32) bool { return resting[group] }))
	return resting, nil
}

// Union adds to a set of runs, which may be nil.
func Union(into, more map[workflow.RunID]bool) map[workflow.RunID]bool {
	if into == nil {
		return more
	}
	maps.Copy(into, more)
	return into
}
