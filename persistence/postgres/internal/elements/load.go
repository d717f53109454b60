package elements

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// columns returns steps as arguments.
func columns(of []workflow.TaskID) pgsql.Named {
	runs, steps := make(pgsql.UUIDs, len(of)), make([]int32, len(of))
	for i, step := range of {
		runs[i], steps[i] = step.Run, step.Step
	}
	return pgsql.Named{"runs": runs, "steps": steps}
}

// QueueLoad adds the statement that loads how far maps have come, without their names. found is
// called with each.
func QueueLoad(b *pgsql.Batch, of []workflow.TaskID, found func(workflow.RunID, lifecycle.Map)) {
	if len(of) == 0 {
		return
	}
	b.Add("load_maps", columns(of)).Query(func(rows pgx.Rows) error {
		var run workflow.RunID
		var m lifecycle.Map
		targets := []any{(*[16]byte)(&run), &m.Step, &m.Window, &m.Allowed, &m.Items, &m.Left, &m.From, &m.Open, &m.Failed, &m.Next}
		_, err := pgx.ForEachRow(rows, targets, func() error {
			found(run, m)
			m.Next = nil
			return nil
		})
		return err
	})
}

// Taken are the items of maps whose elements an earlier run has completed.
type Taken map[workflow.TaskID]map[int32]bool

// LoadTaken reads which these are of some maps.
func LoadTaken(ctx context.Context, db *pgsql.DB, on pgsql.Querier, of []workflow.TaskID) (Taken, error) {
	if len(of) == 0 {
		return nil, nil
	}
	text, args := db.Bind("load_taken", columns(of))
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	taken := Taken{}
	var task workflow.TaskID
	var name string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&task.Run), &task.Step, &name}, func() error {
		if taken[task] == nil {
			taken[task] = map[int32]bool{}
		}
		taken[task][lifecycle.ElementOf(name)] = true
		return nil
	})
	return taken, err
}

// Dynamic are dynamic tasks as those who execute them see them.
type Dynamic struct {
	Tasks map[workflow.RunID]pgsql.DynamicTasks
	Items map[workflow.TaskID][]byte // of elements of maps
}

// LoadDynamic reads what some tasks are that are dynamic. What cannot be read is left out, and
// unreadable is called for its run; in a transaction it fails that.
func LoadDynamic(
	ctx context.Context, db *pgsql.DB, on pgsql.Querier, of []workflow.TaskID, unreadable func(workflow.RunID, error) error,
) (Dynamic, error) {
	found := Dynamic{map[workflow.RunID]pgsql.DynamicTasks{}, map[workflow.TaskID][]byte{}}
	if len(of) == 0 {
		return found, nil
	}
	blames := pgerr.Unreadable
	if _, is := on.(pgx.Tx); is {
		blames = func(error) bool { return false }
	}
	return found, pgsql.Bisect(of, func(part []workflow.TaskID) error { return found.load(ctx, db, on, part) }, blames,
		func(task workflow.TaskID, err error) error { return unreadable(task.Run, err) })
}

func (d *Dynamic) load(ctx context.Context, db *pgsql.DB, on pgsql.Querier, of []workflow.TaskID) error {
	text, args := db.Bind("load_dynamic", columns(of))
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var id workflow.TaskID
	var task lifecycle.Dynamic
	var item []byte
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id.Run), &id.Step, &task.Declared, &task.Name, &item}, func() error {
		if d.Tasks[id.Run] == nil {
			d.Tasks[id.Run] = pgsql.DynamicTasks{}
		}
		d.Tasks[id.Run][id.Step] = task
		if item != nil {
			d.Items[id] = item
		}
		return nil
	})
	return err
}
