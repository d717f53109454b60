// Package requeue stores a run that resumes the run of a dead letter, or begins anew.
package requeue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Requeuer implements the requeue of persistence.DeadLetters. It is safe for concurrent use.
type Requeuer struct {
	*pgsql.DB
	Registry Registry
	// Trigger stores a run in a transaction, to be expanded after its commit.
	Trigger func(ctx context.Context, tx pgx.Tx, t persistence.Trigger) (persistence.TriggerAnswer, error)
}

// Registry knows definitions and queues.
type Registry interface {
	// Definition returns a stored graph, or nil.
	Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error)
	// GraphOf returns the graph of a definition by its number.
	GraphOf(ctx context.Context, on pgsql.Querier, number int32) (*workflow.Graph, error)
	// NameQueue returns the name of a queue by its number.
	NameQueue(ctx context.Context, on pgsql.Querier, number int16) (string, error)
}
