package troupe

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
)

// ErrNoMachine is returned for a run that is not of a state machine.
var ErrNoMachine = persistence.ErrNoMachine

// MachineStatus says how far the run of a state machine has come: see package statemachine.
type MachineStatus struct {
	Version int    `json:"version"` // of the state; 0: no activation is stored yet
	State   []byte `json:"-"`       // as the codec encoded it. In JSON it is "state"
	Handled int64  `json:"handled"` // entries of its inbox up to this number were handled: signals, and the ends of what it has started
	Arrived int64  `json:"arrived"` // the number of the last entry: those above Handled wait
	Started int    `json:"started"` // how many activities, timers and child runs it has started

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

// MachineEntry is an entry of the inbox of a state machine, which it has handled.
type MachineEntry struct {
	N       int64     `json:"n"`    // its number
	Kind    string    `json:"kind"` // completed, failed, fired, signal or cancel
	At      time.Time `json:"at"`   // when it happened
	Name    string    `json:"name"` // of what has ended, such as "charge#3"; of a signal its own
	Payload []byte    `json:"-"`    // completed: the output; signal: the value; as the codec encoded it. In JSON it is "payload"
	Class   string    `json:"class,omitempty"`
	Error   string    `json:"error,omitempty"` // failed: the error; cancel: the reason
}

// MachineHistory is a page of what is kept of the run of a state machine so that it can be replayed:
// the state from which on entries are kept, these entries, and the state that is stored. Of the entries
// that a machine has handled the last 5,000 to 10,000 are kept. docs/json.md has its form in JSON.
type MachineHistory struct {
	Run      RunID     `json:"run"`
	Tenant   string    `json:"tenant"`
	Workflow string    `json:"workflow"`
	BegunAt  time.Time `json:"begun_at,omitzero"`

	Base        int64  `json:"base"`         // entries behind this number are kept
	BaseVersion int    `json:"base_version"` // of the state that the machine had then; 0: it had not begun, and Input is the run's
	BaseState   []byte `json:"-"`            // in the first page; in JSON it is "base_state"
	BaseStarted int    `json:"base_started"` // how many activities, timers and child runs it had started
	Input       []byte `json:"-"`            // of the run, in the first page if BaseVersion is 0; in JSON it is "input"

	Version int    `json:"version"` // of the stored state; 0: no activation is stored yet
	State   []byte `json:"-"`       // in the first page; in JSON it is "state"
	Handled int64  `json:"handled"` // the number of the last entry that is handled
	Started int    `json:"started"` // how many activities, timers and child runs it has started

	Entries []MachineEntry `json:"entries"`
	Next    int64          `json:"next,omitzero"` // after which the next page begins; 0: there are no more

	Codec Codec `json:"-"` // that of the engine; of a reader [JSON]
}

// MachineHistory reads a page of what is kept of a run of a state machine, with the entries behind a
// number: 0, and then MachineHistory.Next. It returns what [Run.Machine] does. See Replay in package
// statemachine.
func (r *Run[O]) MachineHistory(ctx context.Context, after int64) (MachineHistory, error) {
	return r.engine.MachineHistory(ctx, r.tenant, r.id, after)
}

// MachineHistory is [Run.MachineHistory] for a run of a tenant ("": the default one).
func (e *Engine) MachineHistory(ctx context.Context, tenant string, run RunID, after int64) (MachineHistory, error) {
	page, err := e.Reader().MachineHistory(ctx, tenant, run, after)
	page.Codec = e.config.Codec
	return page, err
}

// MachineHistory is [Run.MachineHistory] for a run of a tenant. troupe runs replay writes it.
func (r *Reader) MachineHistory(ctx context.Context, tenant string, run RunID, after int64) (MachineHistory, error) {
	if after < 0 {
		return MachineHistory{}, fmt.Errorf("read the history of a machine: after is %d: use 0, or the Next of a page", after)
	}
	page, err := readFrom(ctx, r, func(ctx context.Context, from reading) (MachineHistory, error) {
		return from.machineHistory(ctx, tenant, run, after)
	})
	if err != nil {
		return MachineHistory{}, fmt.Errorf("read the history of the machine of run %v: %w", run, err)
	}
	return page, nil
}

func (from *reading) machineHistory(ctx context.Context, tenant string, run RunID, after int64) (MachineHistory, error) {
	of, err := from.store.Run(ctx, from.tenant(tenant), run, persistence.WithoutOutputs)
	if err != nil {
		return MachineHistory{}, err
	}
	row, err := from.store.Machine(ctx, from.tenant(tenant), run, persistence.EntryQuery{After: after, Limit: persistence.EntriesMax})
	if err != nil {
		return MachineHistory{}, err
	}
	page := MachineHistory{
		Run: run, Tenant: of.Tenant, Workflow: of.Workflow, BegunAt: utc(of.StartedAt),
		Base: row.Base, BaseVersion: int(row.BaseVersion), BaseStarted: int(row.BaseStarted),
		Version: int(row.Version), Handled: row.Taken, Started: int(row.Started),
		Entries: []MachineEntry{}, Codec: JSON{},
	}
	for i := range row.Entries {
		e := &row.Entries[i]
		if e.N > row.Taken {
			row.More = false
			break
		}
		page.Entries = append(page.Entries, MachineEntry{
			N: e.N, Kind: entryKinds[e.Kind], At: utc(e.At), Name: e.Name, Payload: e.Payload, Class: e.Class, Error: e.Error,
		})
	}
	if last := len(page.Entries) - 1; row.More && page.Entries[last].N < row.Taken {
		page.Next = page.Entries[last].N
	}
	if after > row.Base { // a later page
		return page, nil
	}
	page.BaseState, page.State = row.BaseState, row.State
	if page.BaseVersion == 0 {
		input, err := from.store.Payload(ctx, from.tenant(tenant), run, "", payloadLimitMax)
		if err != nil {
			return MachineHistory{}, err
		}
		page.Input = input.Data
	}
	return page, nil
}

// entryKinds are the names of the kinds of entries.
var entryKinds = map[persistence.EntryKind]string{
	persistence.EntryCompleted: "completed", persistence.EntryFailed: "failed", persistence.EntryFired: "fired",
	persistence.EntrySignal: "signal", persistence.EntryCancel: "cancel",
}
