package statemachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// ErrHistoryMoved is returned by [Machine.Replay] if entries were removed while it read them: the
// machine has handled thousands of others meanwhile. Call it again.
var ErrHistoryMoved = errors.New("older entries were removed while the history was read")

// ReplayError says that entries that were replayed did not give what is stored.
type ReplayError struct {
	Run     troupe.RunID
	Entry   int64  // the entry after which it showed; 0: OnStart. A state is stored for the last one only, so that the cause may be an earlier one
	Handler string // that was called for it, as in `OnSignal of "paid"`
	Differs string // what differs, as in "another state: .Charged[2] is 30 and 31": first what was replayed
	Notice  string // what may explain it; "": nothing that is known
	cause   error
}

// Error implements error.
func (e *ReplayError) Error() string {
	text := fmt.Sprintf("replay of run %v: entry %d, %s: %s", e.Run, e.Entry, e.Handler, e.Differs)
	if e.Notice != "" {
		text += " (" + e.Notice + ")"
	}
	return text
}

// Unwrap returns the error of the handler, if there was one.
func (e *ReplayError) Unwrap() error { return e.cause }

// Replay calls the handlers of this program for the entries of a run of the machine that are kept,
// and compares what they give with what is stored. Nothing needs that: a machine continues from its
// stored state, and a handler that is not deterministic harms none. A replay checks that handlers are
// deterministic, and that a change of them would have decided the same. It changes nothing, and may
// read a run that has not ended.
//
// It returns nil, or a [*ReplayError] with the entry at which it differs: a handler that gave two
// different results for the same entry, an error, or something that the machine had started under
// another name; and behind the last entry the state, if that is another one, with the place in it.
//
// A difference is a mistake only if the handlers had to decide the same. It is none
//   - if a handler was changed on purpose: the entries that the older program handled are replayed
//     with the new one;
//   - if the state got another Version since the first of these entries: the state that they begin with
//     is migrated, and the entries behind it are handled as this version does. ReplayError.Notice says
//     so;
//   - in a run that continues a failed one, if the state holds what Run or Rand of the activation
//     returned: they are those of the new run.
//
// States cannot be compared if they have a version that this program does not know: the error has the
// class state_version. It returns [ErrNotBegun], [ErrHistoryMoved], or what
// [troupe.Run.MachineHistory] does.
func (m *Machine[I, S, O]) Replay(ctx context.Context, run *troupe.Run[O]) error {
	return m.replay(func(after int64) (troupe.MachineHistory, error) { return run.MachineHistory(ctx, after) }, nil)
}

// ReplayHistory is [Machine.Replay] for what troupe runs replay has written: keep such files beside the
// tests of the machine, and a change that would decide otherwise fails them. codec reads the payloads;
// nil: [troupe.JSON].
func (m *Machine[I, S, O]) ReplayHistory(r io.Reader, codec troupe.Codec) error {
	if codec == nil {
		codec = troupe.JSON{}
	}
	pages := json.NewDecoder(r)
	return m.replay(func(int64) (page troupe.MachineHistory, err error) {
		if err := pages.Decode(&page); err != nil {
			return page, fmt.Errorf("read the history: %w", err)
		}
		return page, nil
	}, codec)
}

// replay replays the pages of a history. codec is that of its payloads; nil: the first page has it.
func (m *Machine[I, S, O]) replay(read func(after int64) (troupe.MachineHistory, error), codec troupe.Codec) error {
	if err := m.Validate(); err != nil {
		return err
	}
	page, err := read(0)
	switch {
	case err != nil:
		return err
	case page.Workflow != m.name:
		return fmt.Errorf("run %v is one of workflow %q: replay it with that machine, and not with %q", page.Run, page.Workflow, m.name)
	case page.Version == 0:
		return fmt.Errorf("run %v: %w", page.Run, ErrNotBegun)
	case codec == nil:
		codec = page.Codec
	}
	p, err := m.plan.replayer(&page, codec)
	if err != nil {
		return err
	}
	for {
		for i := range page.Entries {
			if page.Entries[i].N > p.first.Handled || p.done {
				return p.end()
			}
			if err := p.entry(&page.Entries[i]); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return p.end()
		}
		if page, err = read(page.Next); err != nil {
			return err
		}
		if page.Base != p.first.Base || page.Run != p.first.Run {
			return fmt.Errorf("run %v: %w", page.Run, ErrHistoryMoved)
		}
	}
}

// replayer replays the entries of one run.
type replayer[I, S, O any] struct {
	plan     *plan[I, S, O]
	codec    actors.Codec
	varies   bool // the codec gives equal values different bytes
	first    troupe.MachineHistory
	machine  persistence.MachineGrant // as the entries so far have left it
	names    map[int32]string         // of what they have started
	canceled map[int32]bool           // by them
	done     bool
	at       int64 // the last entry
	handler  string
}

// replayer begins a replay with the base of a history. If the machine had not begun then, it starts it.
func (p *plan[I, S, O]) replayer(first *troupe.MachineHistory, codec troupe.Codec) (*replayer[I, S, O], error) {
	r := &replayer[I, S, O]{
		plan: p, first: *first, codec: program.MachineCodec(codec, first.Tenant, first.Workflow, step),
		names: map[int32]string{}, canceled: map[int32]bool{}, handler: "OnStart",
		machine: persistence.MachineGrant{
			Version: int32(first.BaseVersion), State: first.BaseState, Taken: first.Base, Arrived: first.Base, Started: int32(first.BaseStarted),
		},
	}
	r.first.Entries = nil
	if first.BaseVersion == 0 {
		return r, r.activate(nil)
	}
	r.at, r.handler = first.Base, "the state that it begins with"
	base, err := p.restore(r.codec, r.machine.Version, r.machine.State)
	if err != nil {
		return nil, fmt.Errorf("run %v cannot be replayed: the state at entry %d: %w", first.Run, first.Base, err)
	}
	r.machine.Version = int32(p.version)
	if r.machine.State, err = program.Encode(program.StateCodec(r.codec), base); err != nil {
		return nil, fmt.Errorf("run %v cannot be replayed: encode the state at entry %d: %w", first.Run, first.Base, err)
	}
	return r, nil
}

// entry replays an entry.
func (r *replayer[I, S, O]) entry(e *troupe.MachineEntry) error {
	r.at = e.N
	entry := persistence.MachineEntry{N: e.N, At: e.At, Name: e.Name, Payload: e.Payload, Class: e.Class, Error: e.Error}
	for kind, name := range entryKinds {
		if name == e.Kind {
			entry.Kind = kind
		}
	}
	r.handler = handlerOf(&r.plan.program, &entry)
	if _, n := lifecycle.SpawnedAs(e.Name); n > 0 && entry.Kind != persistence.EntrySignal {
		switch name, started := r.names[n]; {
		case started && name != e.Name:
			return r.differs(nil, "the machine had started %s, and the replay %s in its place", e.Name, name)
		case n > r.machine.Started:
			return r.differs(nil, "the machine had started %s, and the replay has started %d things so far", e.Name, r.machine.Started)
		}
	}
	return r.activate(&entry)
}

// entryKinds are the kinds of entries by their names in a history.
var entryKinds = map[persistence.EntryKind]string{
	persistence.EntryCompleted: "completed", persistence.EntryFailed: "failed", persistence.EntryFired: "fired",
	persistence.EntrySignal: "signal", persistence.EntryCancel: "cancel",
}

// activate handles an entry, or the start, as an activation of its own, twice.
func (r *replayer[I, S, O]) activate(e *persistence.MachineEntry) error {
	one, err := r.call(e)
	if err != nil {
		return err
	}
	two, err := r.call(e)
	if err != nil {
		return err
	}
	if differs := r.difference(&one, &two); differs != "" {
		return r.differs(nil, "the handler is not deterministic: called twice with the same, it gave %s", differs)
	}
	if one.err != nil {
		return r.differs(one.err, "the handler had succeeded, and failed in the replay: %v", one.err)
	}
	r.machine.Version, r.machine.State, r.done = one.decided.Version, one.decided.State, one.done
	if e != nil {
		r.machine.Taken, r.machine.Arrived = e.N, e.N
	}
	for _, s := range one.decided.Start {
		r.machine.Started++
		r.names[r.machine.Started] = lifecycle.SpawnedName(s.Step, r.machine.Started)
	}
	for _, n := range one.decided.Cancel {
		r.canceled[n] = true
	}
	return nil
}

// call executes an activation once. A panic of a handler is the error of the replay.
func (r *replayer[I, S, O]) call(e *persistence.MachineEntry) (o outcome, err error) {
	grant := r.machine
	if e != nil {
		grant.Arrived, grant.Entries = e.N, []persistence.MachineEntry{*e}
	}
	in := actors.Inputs{Input: r.first.Input, BegunAt: r.first.BegunAt, Machine: &grant}
	contained := program.Contain(func() error {
		o.decided, o.output, o.done, o.err = r.plan.decide(r.first.Run, r.canceled, r.codec, in)
		return nil
	})
	if contained != nil {
		return o, r.differs(contained, "the handler had succeeded, and failed in the replay: %v", contained)
	}
	return o, nil
}

// difference says what two executions of one activation differ in. Where a codec gives equal values
// different bytes, states are compared as what they are decoded into, and inputs are not.
func (r *replayer[I, S, O]) difference(a, b *outcome) string {
	if a.err != nil || b.err != nil || !r.unstable(a) {
		return difference(*a, *b)
	}
	if !r.same(a.decided.State, b.decided.State) {
		return "another state"
	}
	bare := func(o outcome) outcome {
		decided := *o.decided
		decided.State, decided.Start = nil, nil
		for _, s := range o.decided.Start {
			s.Input = nil
			decided.Start = append(decided.Start, s)
		}
		o.decided = &decided
		return o
	}
	return difference(bare(*a), bare(*b))
}

// unstable reports whether the codec gives equal values different bytes, as one does that encrypts.
func (r *replayer[I, S, O]) unstable(o *outcome) bool {
	if r.varies {
		return true
	}
	state, err := r.plan.restore(r.codec, o.decided.Version, o.decided.State)
	if err != nil {
		return false
	}
	one, err := program.Encode(program.StateCodec(r.codec), state)
	two, again := program.Encode(program.StateCodec(r.codec), state)
	r.varies = err == nil && again == nil && string(one) != string(two)
	return r.varies
}

// same compares two encoded states as what they are decoded into.
func (r *replayer[I, S, O]) same(a, b []byte) bool {
	x, err := r.plan.restore(r.codec, int32(r.plan.version), a)
	y, again := r.plan.restore(r.codec, int32(r.plan.version), b)
	return err == nil && again == nil && reflect.DeepEqual(x, y)
}

// end compares what the last entry has left with what is stored.
func (r *replayer[I, S, O]) end() error {
	stored, err := r.plan.restore(r.codec, int32(r.first.Version), r.first.State)
	if err != nil {
		return fmt.Errorf("run %v cannot be replayed: the stored state: %w", r.first.Run, err)
	}
	encoded, err := program.Encode(program.StateCodec(r.codec), stored)
	if err != nil {
		return fmt.Errorf("run %v cannot be replayed: encode the stored state: %w", r.first.Run, err)
	}
	if r.first.Started != int(r.machine.Started) && !r.done {
		return r.differs(nil, "the machine had started %d things, and the replay %d", r.first.Started, r.machine.Started)
	}
	if r.same(r.machine.State, encoded) {
		return nil
	}
	if differs := changed("state", r.readable(r.machine.State), r.readable(encoded)); differs != "" {
		return r.differs(nil, "it left %s, which is stored", differs)
	}
	return nil
}

// readable returns an encoded state as JSON, to say where it differs: the codec may write something
// else.
func (r *replayer[I, S, O]) readable(state []byte) []byte {
	if json.Valid(state) {
		return state
	}
	value, err := r.plan.restore(r.codec, int32(r.plan.version), state)
	if err != nil {
		return state
	}
	if text, err := json.Marshal(value); err == nil {
		return text
	}
	return state
}

// differs is the error of a replay at the entry that it has come to.
func (r *replayer[I, S, O]) differs(cause error, format string, args ...any) *ReplayError {
	e := &ReplayError{Run: r.first.Run, Entry: r.at, Handler: r.handler, Differs: fmt.Sprintf(format, args...), cause: cause}
	base, stored := r.first.BaseVersion, r.first.Version
	switch {
	case base != 0 && r.first.BaseStarted == 0 && r.first.Started > 0:
		e.Notice = fmt.Sprintf("the database does not say how many things the machine had started at entry %d: ids are others in the replay", r.first.Base)
	case base != 0 && base != r.plan.version:
		e.Notice = fmt.Sprintf("the state at entry %d has version %d, and was migrated to version %d of this program: "+
			"entries that an older program handled may have been decided otherwise", r.first.Base, base, r.plan.version)
	case stored != r.plan.version:
		e.Notice = fmt.Sprintf("the stored state has version %d, and this program version %d: what it migrates may be another state", stored, r.plan.version)
	}
	return e
}
