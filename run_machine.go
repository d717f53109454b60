package troupe

import (
	"bytes"
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
)

// ErrNoMachine is returned for a run that is not of a state machine.
var ErrNoMachine = persistence.ErrNoMachine

// MachineStatus says how far the run of a state machine has come: see package statemachine.
type MachineStatus struct {
	Version int    // of the state; 0: no activation is stored yet
	State   []byte // as the codec encoded it
	Handled int64  // entries of its inbox up to this number were handled: signals, and the ends of what it has started
	Arrived int64  // the number of the last entry: those above Handled wait
	Started int    // how many activities, timers and child runs it has started

	codec Codec
	place PayloadPlace
}

// Decode decodes the state into a value of its type.
func (s MachineStatus) Decode(into any) error {
	return program.Contain(func() error { return actors.CodecFor(s.codec, s.place).Unmarshal(bytes.Clone(s.State), into) })
}

// Machine returns how far the run has come, if it is of a state machine: as its last activation left
// it. It returns [ErrNoMachine], [ErrRunNotFound] or [ErrUnavailable].
func (r *Run[O]) Machine(ctx context.Context) (MachineStatus, error) {
	return r.engine.Machine(ctx, r.tenant, r.id)
}

// Machine is [Run.Machine] for a run of a tenant ("": the default one).
func (e *Engine) Machine(ctx context.Context, tenant string, run RunID) (MachineStatus, error) {
	status, err := e.Reader().Machine(ctx, tenant, run)
	status.codec = e.config.Codec
	return status, err
}

// Machine is [Run.Machine] for a run of a tenant. A reader knows no codec: Decode reads JSON.
func (r *Reader) Machine(ctx context.Context, tenant string, run RunID) (MachineStatus, error) {
	status, err := readFrom(ctx, r, func(ctx context.Context, from reading) (MachineStatus, error) {
		row, err := from.store.Machine(ctx, from.tenant(tenant), run, persistence.EntryQuery{})
		if err != nil {
			return MachineStatus{}, err
		}
		of, err := from.store.Run(ctx, from.tenant(tenant), run, persistence.WithoutOutputs)
		if err != nil {
			return MachineStatus{}, err
		}
		return MachineStatus{
			Version: int(row.Version), State: row.State, Handled: row.Taken, Arrived: row.Arrived, Started: int(row.Started),
			codec: JSON{}, place: program.StatePlace(of.Tenant, of.Workflow),
		}, nil
	})
	if err != nil {
		return MachineStatus{}, fmt.Errorf("read the machine of run %v: %w", run, err)
	}
	return status, nil
}
