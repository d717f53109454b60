// Package inbox stores signals for runs, to be delivered by the intake.
package inbox

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Sender implements the sending of persistence.Inbox. It is safe for concurrent use.
type Sender struct {
	*pgsql.DB
	Graphs Graphs
}

// Graphs knows definitions.
type Graphs interface {
	// GraphOf returns the graph of a definition by its number.
	GraphOf(ctx context.Context, on pgsql.Querier, number int32) (*workflow.Graph, error)
}
