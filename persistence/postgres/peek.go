package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

// peeked is a place in a queue that a claim may take.
type peeked struct {
	at      int64 // fair id
	task    workflow.TaskID
	suspect bool
	queued  bool // else the claim discards it; peek_places does not ask
}

// peek returns the next places of a queue that a claim may take, in order, but
// those of some tenants. statement is peek_places or peek_ready.
func (s *Store) peek(
	ctx context.Context, tx pgx.Tx, statement string, request persistence.ClaimRequest, queue int16, but []int64, without quarantine.Exclusions,
) ([]peeked, error) {
	text, args := s.Bind(statement, pgsql.Named{
		"queue": queue, "after": request.After, "handlers": pgsql.OrEmpty(request.Handlers), "suspects": request.Suspects,
		"limit": request.Limit, "but": pgsql.OrEmpty(but), "skip": without.Runs, "foreign": without.Definitions,
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (peeked, error) {
		var p peeked
		err := row.Scan(&p.at, (*[16]byte)(&p.task.Run), &p.task.Step, &p.suspect, &p.queued)
		return p, err
	})
}

func placesOf(rows []peeked) []int64 {
	places := make([]int64, len(rows))
	for i, row := range rows {
		places[i] = row.at
	}
	return places
}

func groupOf(row peeked) int32 {
	group, _, _ := lifecycle.SplitFairID(row.at)
	return group
}
