package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// loadArchived loads those of the runs that are in history, with all of their
// tasks: whoever is late learns from them that everything is over. Nothing that
// happens to them changes them, so nothing is locked.
func (p *pass) loadArchived(ctx context.Context, ids pgsql.UUIDs) error {
	missing := slices.DeleteFunc(slices.Clone(ids), func(id workflow.RunID) bool { return p.byID[id] != nil })
	if len(missing) == 0 {
		return nil
	}
	b := p.s.NewBatch()
	b.Add("load_archived", pgsql.Named{"runs": missing}).Query(func(rows pgx.Rows) error {
		runs, err := pgx.CollectRows(rows, scanRun)
		for _, r := range runs {
			r.complete = true
			p.byID[r.id] = r
		}
		return err
	})
	b.Add("load_archived_tasks", pgsql.Named{"runs": missing}).Query(func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			id, t, err := scanTask(row)
			if r := p.byID[id]; r != nil {
				r.tasks[t.Step] = t
			}
			return struct{}{}, err
		})
		return err
	})
	return pgsql.Send(ctx, p.tx, b)
}
