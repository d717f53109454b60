package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Holds are told by runs: nothing is done for a run if its row cannot be had, or a task
// that is needed, or a child or a timer of that task.

// taskIDs are tasks of which something is to be done; lifecycle.RunStep stands for all of
// a run's that have not ended.
type taskIDs []workflow.TaskID

// columns returns them as arguments of a statement.
func (t taskIDs) columns() (runs uuids, steps []int32) {
	runs, steps = make(uuids, len(t)), make([]int32, len(t))
	for i, task := range t {
		runs[i], steps[i] = task.Run, task.Step
	}
	return runs, steps
}

// runs returns whose they are.
func (t taskIDs) runs() uuids {
	runs, _ := t.columns()
	return runs
}

// but returns those of other runs.
func (t taskIDs) but(runs map[workflow.RunID]bool) taskIDs {
	return slices.DeleteFunc(slices.Clone(t), func(task workflow.TaskID) bool {
		_, is := runs[task.Run]
		return is
	})
}

// wantedTasks returns the tasks of which rows are wanted.
func wantedTasks(wants []want) (tasks taskIDs) {
	for _, w := range wants {
		for _, step := range w.steps {
			tasks = append(tasks, workflow.TaskID{Run: w.run, Step: step})
		}
		if w.open || len(w.steps) == 0 {
			tasks = append(tasks, workflow.TaskID{Run: w.run, Step: lifecycle.RunStep})
		}
	}
	return tasks
}

// lockFree locks the runs of tasks that need no wait, as the mode says, and returns which those
// are. Runs that are not there are among them, unless the mode is lockFree.
func (p *pass) lockFree(ctx context.Context, tasks taskIDs, mode locking) (map[workflow.RunID]bool, error) {
	if mode == lockFree {
		return p.lockUnheld(ctx, tasks.runs())
	}
	if err := p.leaveOut(ctx, tasks, mode); err != nil {
		return nil, err
	}
	free := make(map[workflow.RunID]bool, len(tasks))
	for _, task := range tasks {
		free[task.Run] = !p.left[task.Run]
	}
	return free, nil
}

// leaveOut locks the runs of tasks, except those that it leaves out. It does not wait for
// long for the other rows that they need.
func (p *pass) leaveOut(ctx context.Context, tasks taskIDs, mode locking) error {
	tasks = p.s.strained.withoutHeld(tasks, func(run workflow.RunID, _ bool) { p.left[run] = true })
	b := p.s.newBatch()
	b.Queue("set local lock_timeout = '" + calmPatience + "'")
	if mode == lockCalm {
		held, err := p.s.knownHeld(ctx, p.tx, tasks)
		if err != nil {
			return err
		}
		for run := range held {
			p.left[run] = true
		}
		b.add("lock_runs", named{"runs": tasks.but(held).runs()})
		return send(ctx, p.tx, b)
	}
	if err := send(ctx, p.tx, b); err != nil {
		return err
	}
	held, err := p.heldRuns(ctx, tasks, true)
	if err != nil {
		return err
	}
	maps.Copy(p.left, held)
	free, err := p.lockUnheld(ctx, tasks.but(held).runs())
	if err != nil {
		return err
	}
	maps.Copy(held, free)
	return p.meetHolders(ctx, tasks.but(held).runs())
}

// heldOpen returns the runs, among some, of which somebody else holds rows of a task that
// has not ended: a decision that skips or stops later tasks needs these rows.
func (p *pass) heldOpen(ctx context.Context, runs []*run) (held map[workflow.RunID]bool, err error) {
	tasks := make(taskIDs, len(runs))
	for i, r := range runs {
		tasks[i] = workflow.TaskID{Run: r.id, Step: lifecycle.RunStep}
	}
	switch p.mode {
	case lockCalm:
		known, err := p.s.knownHeld(ctx, p.tx, tasks)
		held = make(map[workflow.RunID]bool, len(known))
		for run := range known {
			held[run] = true
		}
		return held, err
	case lockStrict:
		return p.heldRuns(ctx, tasks, true)
	case lockWaiting, lockFree:
	}
	return nil, nil
}

// leave leaves runs out that were loaded.
func (p *pass) leave(held map[workflow.RunID]bool) {
	for id := range held {
		delete(p.byID, id)
		p.left[id] = true
	}
	p.runs = slices.DeleteFunc(p.runs, func(r *run) bool { return held[r.id] })
}

// lockUnheld locks the runs that nobody else holds, and returns them.
func (p *pass) lockUnheld(ctx context.Context, ids uuids) (map[workflow.RunID]bool, error) {
	text, args := p.s.statements.bind("lock_runs_free", named{"runs": ids})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return runSet(rows)
}

// meetHolders remembers who holds runs that could not be locked, and leaves these out.
func (p *pass) meetHolders(ctx context.Context, ids uuids) error {
	if len(ids) == 0 {
		return nil
	}
	text, args := p.s.statements.bind("run_holders", named{"runs": ids})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var id workflow.RunID
	return p.s.heldRows(rows, (*[16]byte)(&id), true, func() { p.left[id] = true })
}

// heldRuns returns the runs of tasks of which somebody else holds something but their own
// rows, or what gives their tenants places. To find out it takes what nobody holds, and
// gives it back at once: it has its order.
func (p *pass) heldRuns(ctx context.Context, tasks taskIDs, strict bool) (held map[workflow.RunID]bool, err error) {
	held = map[workflow.RunID]bool{}
	read := func(rows pgx.Rows) error {
		var id workflow.RunID
		return p.s.heldRows(rows, (*[16]byte)(&id), strict, func() { held[id] = true })
	}
	runs, steps := tasks.columns()
	err = p.s.glance(ctx, p.tx, func(b *batch) {
		b.add("find_held_runs", named{"runs": runs}).Query(read)
		b.add("find_held_tasks", named{"runs": runs, "steps": steps}).Query(read)
	})
	return held, err
}

// glance reads what statements that take locks return, and gives these back.
func (s *Store) glance(ctx context.Context, tx pgx.Tx, queue func(*batch)) error {
	b := s.newBatch()
	b.Queue("savepoint troupe_look")
	queue(b)
	b.Queue("rollback to savepoint troupe_look")
	b.Queue("release savepoint troupe_look")
	return send(ctx, tx, b)
}

// runSet reads rows of one id each.
func runSet(rows pgx.Rows) (map[workflow.RunID]bool, error) {
	set := map[workflow.RunID]bool{}
	var id [16]byte
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		set[id] = true
		return nil
	})
	return set, err
}

// lookForHolders finds the holders of rows of tasks, or of the counters of their tenants,
// after a transaction that is not the engine's has waited for these in vain.
func (s *Store) lookForHolders(ctx context.Context, tasks taskIDs) {
	s.strained.note(ctx)
	_ = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { // the next wait in vain looks again
		free, err := s.newPass(tx).lockFree(ctx, tasks, lockStrict)
		if err != nil {
			return err
		}
		if err := s.lookFurther(ctx, tx, tasks, free); err != nil {
			return err
		}
		return errTrial
	})
}

// lookFurther finds the holders of other rows that recording tasks of free runs has
// reached, and remembers them with these tasks.
func (s *Store) lookFurther(ctx context.Context, tx pgx.Tx, tasks taskIDs, free map[workflow.RunID]bool) error {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(task workflow.TaskID) bool { return !free[task.Run] })
	if len(tasks) == 0 {
		return nil
	}
	all := make(taskIDs, len(tasks))
	for i, task := range tasks {
		all[i] = workflow.TaskID{Run: task.Run, Step: lifecycle.RunStep}
	}
	runs, steps := all.columns()
	held := map[workflow.RunID]heldBy{}
	err := s.glance(ctx, tx, func(b *batch) {
		b.add("find_held_tasks", named{"runs": runs, "steps": steps}).Query(func(rows pgx.Rows) error {
			var id workflow.RunID
			var holder int64
			_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &holder}, func() error {
				if holder != 0 { // else it was taken just now
					held[id] = heldBy{holder: holder}
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, by := range held {
		s.strained.found([]int64{by.holder})
	}
	s.strained.remember(tasks, held, heldMax) // as long as it goes on
	return nil
}
