package readers

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Machine implements persistence.Runs.
func (s *Reader) Machine(_ context.Context, _ string, _ workflow.RunID, _ persistence.EntryQuery) (persistence.MachineRow, error) {
	return persistence.MachineRow{}, errors.ErrUnsupported
}
