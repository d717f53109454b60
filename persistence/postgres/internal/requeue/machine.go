package requeue

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// resuming is what a run begins with that continues an ended run of a machine.
type resuming struct {
	lifecycle.Resumed

	leftBehind bool // the machine has no use for what the letter is about
}

// count returns what the answer says is taken over.
func (r *requeueing) count() int {
	if r.machine != nil {
		return len(r.machine.Ended)
	}
	return len(r.kept)
}

// resume chooses what the new run of a machine continues with.
func (r *requeueing) resume(ctx context.Context) error {
	if r.order.Fresh {
		return nil
	}
	var run lifecycle.Run
	var taken int64
	var tasks []lifecycle.Task
	b := r.s.NewBatch()
	id := pgsql.Named{"run": [16]byte(r.order.Letter.Run)}
	b.Add("read_dead_machine", id).QueryRow(func(row pgx.Row) error { return row.Scan(&taken, &run.Signals) })
	b.Add("read_dead_spawned", id).Query(func(rows pgx.Rows) (err error) {
		tasks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (lifecycle.Task, error) {
			var t lifecycle.Task
			var state, traits, flags int16
			err := row.Scan(&t.Step, &state, &traits, &flags, &t.Entry)
			t.State, t.Traits, t.Flags = lifecycle.State(state), workflow.Traits(traits), lifecycle.Flags(flags)
			if t.Step > 0 {
				t.Dynamic = &lifecycle.Dynamic{}
			}
			return t, err
		})
		return err
	})
	if err := pgsql.Send(ctx, r.tx, b); err != nil {
		return err
	}
	r.machine = &resuming{
		Resumed:    lifecycle.ResumeMachine(run, tasks, taken),
		leftBehind: lifecycle.LeftBehind(tasks, r.order.Letter.Step, taken),
	}
	return nil
}

// queueMachine adds the statements that write it down.
func (r *requeueing) queueMachine(b *pgsql.Batch, now time.Time) {
	steps, entries := []int32{}, []int64{}
	for _, t := range slices.Concat(r.machine.Ended, r.machine.Again) {
		steps, entries = append(steps, t.Step), append(entries, t.Entry)
	}
	b.Add("keep_machine", pgsql.Named{"new": [16]byte(r.order.Run), "run": [16]byte(r.order.Letter.Run)})
	b.Add("keep_spawned", pgsql.Named{
		"new": [16]byte(r.order.Run), "run": [16]byte(r.order.Letter.Run), "steps": steps, "entries": entries,
		"signals": r.machine.Signals, "now": pgsql.Instant(now),
	}).QueryRow(pgsql.Wrote(1 + len(steps)))
}
