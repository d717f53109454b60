// Package readers answers callers: runs, tasks and events, what work waits for, dead letters,
// why a run does not move, and a snapshot of everything. Of all that it only purges dead letters.
package readers

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Reader implements persistence.Runs, persistence.Reader and the reads of
// persistence.DeadLetters. It is safe for concurrent use.
type Reader struct {
	*pgsql.DB
	Graphs Graphs
	User   *pgxpool.Pool // the embedder's, for snapshots

	shared sharedCounts
}

// Graphs knows the definitions.
type Graphs interface {
	// Definition returns a stored graph, or nil.
	Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error)
	// GraphOf returns the graph of a definition by its number.
	GraphOf(ctx context.Context, on pgsql.Querier, number int32) (*workflow.Graph, error)
}

var (
	_ persistence.Runs       = (*Reader)(nil)
	_ persistence.Reader     = (*Reader)(nil)
	_ persistence.Situations = (*Reader)(nil)
	_ persistence.Backlogs   = (*Reader)(nil)
)
