package statemachine

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe"
)

// ErrNotBegun is returned by [Machine.State] for a run whose first activation is not stored yet.
var ErrNotBegun = errors.New("the machine has not begun")

// State returns the state of a run of the machine, as its last activation left it, also of a run
// that has ended: of one that failed, the state before the activation that failed. A state of an
// older version is migrated, and stays as it is in the database. It returns [ErrNotBegun], or what
// [troupe.Run.Machine] does.
func (m *Machine[I, S, O]) State(ctx context.Context, run *troupe.Run[O]) (state S, err error) {
	status, err := run.Machine(ctx)
	switch {
	case err != nil:
		return state, err
	case status.Version == 0:
		return state, fmt.Errorf("run %v: %w", run.ID(), ErrNotBegun)
	}
	return m.plan.migrated(int32(status.Version), status.Decode)
}
