package persistence

import (
	"context"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/workflow"
)

// Situations reads why runs do not move. Nothing is ever decided from what it
// returns.
type Situations interface {
	// Situation returns what is known about a run of a tenant ("": any) at one
	// instant, or ErrRunNotFound. Of a run that has ended it has the state, the parent and the End only.
	// Of the child run that a step waits for it has what the live tables say.
	// It waits for no lock for long: tables that are locked make it
	// Unreadable, which is an answer and no error.
	Situation(ctx context.Context, tenant string, run workflow.RunID) (explain.Situation, error)
}
