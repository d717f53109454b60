package readers

import (
	"context"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/workflow"
)

// Machine implements persistence.Runs.
func (s *Reader) Machine(ctx context.Context, tenant string, run workflow.RunID, query persistence.EntryQuery) (persistence.MachineRow, error) {
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return persistence.MachineRow{}, err
	}
	defer leave()
	row, found, err := machines.Read(ctx, s.DB, s.Conns, run, query)
	switch {
	case err != nil:
		return persistence.MachineRow{}, pgerr.Translate(err)
	case !found || tenant != "" && row.Tenant != tenant:
		return persistence.MachineRow{}, persistence.ErrRunNotFound
	}
	graph, err := s.Graphs.GraphOf(ctx, s.Conns, row.Definition)
	switch {
	case err != nil:
		return persistence.MachineRow{}, err
	case !graph.IsMachine():
		return persistence.MachineRow{}, persistence.ErrNoMachine
	}
	return row.MachineRow, nil
}
