package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// knownHeld returns the runs of tasks of which a known holder holds rows, and whether
// these are the counters of their tenant. A number in a row does not say whether one would
// have to wait for it, so that is tried.
func (s *Store) knownHeld(ctx context.Context, tx pgx.Tx, tasks taskIDs) (held map[workflow.RunID]bool, err error) {
	held = map[workflow.RunID]bool{}
	hold := func(run workflow.RunID, tenant bool) { held[run] = held[run] || tenant }
	if tasks = s.strained.withoutHeld(tasks, hold); len(tasks) == 0 {
		return held, nil
	}
	began := clock.System{}.Now()
	suspected, err := s.suspectedHeld(ctx, tx, tasks)
	if err != nil || len(suspected) == 0 {
		return held, err
	}
	found, err := s.tryHeld(ctx, tx, tasks, suspected)
	if err != nil {
		return held, err
	}
	s.strained.remember(tasks, found, clock.System{}.Now().Sub(began))
	for run, by := range found {
		hold(run, by.tenant)
	}
	return held, nil
}

// tryHeld returns which of the runs that are suspected one would have to wait for, and
// who holds them.
func (s *Store) tryHeld(
	ctx context.Context, tx pgx.Tx, tasks taskIDs, suspected map[workflow.RunID]suspicion,
) (held map[workflow.RunID]heldBy, err error) {
	var counters, rows uuids
	var rest taskIDs
	for run, by := range suspected {
		if by[byCounters] != 0 {
			counters = append(counters, run)
		}
		if by[byRun] != 0 {
			rows = append(rows, run)
		}
	}
	for _, task := range tasks {
		if suspected[task.Run][byTasks] != 0 {
			rest = append(rest, task)
		}
	}
	held = map[workflow.RunID]heldBy{}
	hold := func(run workflow.RunID, what int) {
		held[run] = heldBy{holder: suspected[run][what], tenant: held[run].tenant || what == byCounters}
	}
	var free map[workflow.RunID]bool
	err = s.glance(ctx, tx, func(b *batch) {
		if len(counters) > 0 {
			b.add("find_held_runs", named{"runs": counters}).Query(s.readHeld(func(run workflow.RunID) { hold(run, byCounters) }))
		}
		if len(rest) > 0 {
			runs, steps := rest.columns()
			b.add("find_held_tasks", named{"runs": runs, "steps": steps}).Query(s.readHeld(func(run workflow.RunID) { hold(run, byTasks) }))
		}
		if len(rows) > 0 {
			b.add("lock_runs_free", named{"runs": rows}).Query(func(found pgx.Rows) (err error) {
				free, err = runSet(found)
				return err
			})
		}
	})
	if err != nil {
		return nil, err
	}
	for _, run := range rows {
		if !free[run] {
			hold(run, byRun)
		}
	}
	return held, nil
}

// Where somebody stands who may hold a run, as known_held says.
const (
	byCounters = iota
	byRun
	byTasks
	places
)

// suspicion is whose number stands in which rows of a run; 0: nobody's.
type suspicion [places]int64

// heldBy is the holder of rows of a run, and whether these are the counters of its tenant.
type heldBy struct {
	holder int64
	tenant bool
}

// suspectedHeld returns the runs of tasks in whose rows numbers of known holders stand, and
// which stands where.
func (s *Store) suspectedHeld(ctx context.Context, on querier, tasks taskIDs) (map[workflow.RunID]suspicion, error) {
	runs, steps := tasks.columns()
	text, args := s.statements.bind("known_held", named{
		"runs": runs, "steps": steps, "holders": s.strained.known(), "before": s.strained.before(),
	})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	suspected := map[workflow.RunID]suspicion{}
	var id [16]byte
	var where int
	var holder int64
	_, err = pgx.ForEachRow(rows, []any{&id, &where, &holder}, func() error {
		by := suspected[id]
		by[where] = holder
		suspected[id] = by
		return nil
	})
	return suspected, err
}

// readHeld reads runs and who holds them.
func (s *Store) readHeld(add func(workflow.RunID)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var id workflow.RunID
		return s.heldRows(rows, (*[16]byte)(&id), false, func() { add(id) })
	}
}

// isHeld reports whether somebody who was waited for in vain holds what the recording of a
// task may need. If that cannot be asked it is not known.
func (s *Store) isHeld(ctx context.Context, task workflow.TaskID) bool {
	ctx, cancel := context.WithTimeout(ctx, heldAskMax)
	defer cancel()
	if s.locking(ctx); len(s.strained.known()) == 0 {
		return false
	}
	if len(s.strained.withoutHeld(taskIDs{task}, func(workflow.RunID, bool) {})) == 0 {
		return true
	}
	suspected, err := s.suspectedHeld(ctx, s.pool, taskIDs{task})
	if err != nil || len(suspected) == 0 {
		return false
	}
	is := false
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		held, err := s.knownHeld(ctx, tx, taskIDs{task})
		_, is = held[task.Run]
		return err
	})
	return err == nil && is
}
