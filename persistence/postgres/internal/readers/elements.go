package readers

import (
	"context"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Elements implements persistence.Runs.
func (r *Reader) Elements(context.Context, string, workflow.TaskID, persistence.ElementQuery) (persistence.ElementPage, error) {
	panic("to be written")
}
