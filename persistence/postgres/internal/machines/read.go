package machines

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Row is what the database says of the machine of a run.
type Row struct {
	persistence.MachineRow

	Definition int32 // of the run
	Tenant     string
}

// Read returns how far the machine of a run has come, with a page of its inbox; found is false if
// there is no such run.
func Read(ctx context.Context, db *pgsql.DB, on pgsql.Querier, run workflow.RunID, query persistence.EntryQuery) (row Row, found bool, err error) {
	text, args := db.Bind("read_machine", pgsql.Named{
		"run": [16]byte(run), "after": query.After, "limit": int32(min(query.Limit, persistence.EntriesMax)), "bytes": int64(persistence.EntriesBytes),
	})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return row, false, err
	}
	var one Row
	e := entryRow{}
	targets := append([]any{
		&one.Definition, &one.Tenant, &one.Taken, &one.Version, &one.State, &one.Arrived, &one.Started, &one.Base, &one.BaseVersion,
		&one.BaseState, &one.BaseStarted, &e.entry.N,
	}, e.targets()...)
	_, err = pgx.ForEachRow(rows, targets, func() error {
		switch {
		case e.entry.N == 0:
			row, found = one, true
			if row.Version == 0 {
				row.State = nil
			}
			if row.BaseVersion == 0 {
				row.BaseState = nil
			}
		case e.kept:
			row.Entries = append(row.Entries, e.read())
		default:
			row.More = true
		}
		return nil
	})
	return row, found, err
}
