package statemachine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

const classDecoding = lifecycle.ClassDecoding

// errTooManyActions is the error of an activation that starts and cancels too much.
var errTooManyActions = troupe.Terminal(troupe.Class(lifecycle.ClassTooManyActions, fmt.Errorf(
	"an activation starts and cancels more than %d activities, timers and child runs: start the rest when some of these have ended", persistence.DynamicMax)))

// activate executes an activation: it calls the handlers of the entries in turn, and encodes what
// they have decided.
func (p *plan[I, S, O]) activate(ctx context.Context, codec actors.Codec, in actors.Inputs) (decided *persistence.Activation, output any, done bool, err error) {
	var task actors.TaskInfo
	if attempt := actors.AttemptFrom(ctx); attempt != nil {
		task = attempt.Info()
	}
	decided, output, done, err = p.decide(task.Run, nil, codec, in)
	if err == nil && task.Attempt > 0 && task.Attempt < refuseFrom && len(decided.Refused) > 0 {
		refused := decided.Refused[0]
		return nil, nil, false, troupe.Class(classDecoding, fmt.Errorf("%s; tried again, and left out from the attempt %d on", refused.Why, refuseFrom))
	}
	return decided, output, done, err
}

// refuseFrom is the attempt of an activation from which on a signal that cannot be read is left
// out: a codec may have failed for a moment, such as one that asks a service for a key.
const refuseFrom = 3

// decide is activate for a run. canceled are those that earlier activations have canceled, if the
// entries may have ends of these: where one activation is played as several.
func (p *plan[I, S, O]) decide(
	run troupe.RunID, canceled map[int32]bool, codec actors.Codec, in actors.Inputs,
) (decided *persistence.Activation, output any, done bool, err error) {
	a, in, err := p.played(run, canceled, codec, in)
	if err != nil {
		return nil, nil, false, err
	}
	m := in.Machine
	decided = &persistence.Activation{Taken: m.Arrived, Heard: int32(len(m.Entries)), Version: int32(p.version)}
	if decided.State, err = program.Encode(program.StateCodec(codec), a.State); err != nil {
		return nil, nil, false, troupe.Terminal(troupe.Class(lifecycle.ClassEncoding, fmt.Errorf("encode the state of type %T: %w", a.State, err)))
	}
	decided.Refused = a.turn.refused
	if a.done { // what would begin ends with the machine
		return decided, a.out, true, nil
	}
	decided.Cancel = a.turn.cancels
	for _, s := range a.turn.starts {
		spawn := persistence.Spawn{Step: s.step, WakeAt: s.wakeAt}
		if s.kind != workflow.SleepUntil {
			if spawn.Input, err = program.Encode(program.SpawnCodec(codec, s.id), s.input); err != nil {
				return nil, nil, false, troupe.Terminal(troupe.Class(lifecycle.ClassEncoding, fmt.Errorf("encode the input of %s of type %T: %w", s.id, s.input, err)))
			}
		}
		decided.Start = append(decided.Start, spawn)
	}
	return decided, nil, false, nil
}

// played is an activation that has called the handlers of as many entries, from the first on, as it
// may decide on together, and what it was given of them: the next one handles the rest. A storm of
// signals would else be more than a machine can handle, and it would fail for good.
func (p *plan[I, S, O]) played(
	run troupe.RunID, canceled map[int32]bool, codec actors.Codec, in actors.Inputs,
) (*Activation[S, O], actors.Inputs, error) {
	for {
		a := &Activation[S, O]{turn: &turn{machine: &p.program, run: run, started: in.Machine.Started, canceled: map[int32]bool{}}}
		maps.Copy(a.turn.canceled, canceled)
		handled, err := p.play(a, codec, in)
		switch {
		case a.turn.overflows && (handled > 1 || handled == 1 && in.Machine.Version == 0):
			in.Machine = upTo(in.Machine, handled-1) // from the stored state again, up to the one before
		case err == nil && !a.turn.ended:
			in.Machine = upTo(in.Machine, handled)
			return a, in, nil
		default:
			return a, in, err
		}
	}
}

// upTo returns a grant with no more than its first entries.
func upTo(m *persistence.MachineGrant, entries int) *persistence.MachineGrant {
	if entries >= len(m.Entries) {
		return m
	}
	short := *m
	short.Entries, short.Arrived = m.Entries[:entries], m.Taken
	if entries > 0 {
		short.Arrived = m.Entries[entries-1].N
	}
	return &short
}

// playMax is how long an activation takes entries. It may last longer, by one handler.
const playMax = activationTimeout / 5

// play restores the state and calls the handlers of the entries in turn. It returns how many it
// called.
func (p *plan[I, S, O]) play(a *Activation[S, O], codec actors.Codec, in actors.Inputs) (handled int, err error) {
	wall := clock.System{} // it bounds work, and changes no result
	begun := wall.Now()
	m := in.Machine
	if m.Version == 0 {
		input, err := program.DecodeInput[I](codec, in)
		if err != nil {
			return handled, err
		}
		a.turn.at(0, in.BegunAt)
		p.start(a, input)
		a.turn.open = false
	} else if a.State, err = p.restore(codec, m.Version, m.State); err != nil {
		return handled, err
	}
	for i := range m.Entries {
		if a.turn.ended || a.turn.overflows || i > 0 && wall.Now().Sub(begun) > playMax {
			break
		}
		handled++
		if err := p.handle(a, codec, &m.Entries[i]); err != nil {
			return handled, err
		}
	}
	return handled, a.turn.failure()
}

// at lets a handler be called for an entry. What it sees of the instant is the same on each pod, in
// each store and when entries are replayed.
func (t *turn) at(entry int64, at time.Time) {
	t.entry, t.now, t.open, t.random = entry, micros(at), true, nil
}

// micros is an instant in UTC and whole microseconds, rounded up as on the way to a pod.
func micros(at time.Time) time.Time {
	if whole := at.Truncate(time.Microsecond); whole.Before(at) {
		at = whole.Add(time.Microsecond)
	}
	return at.UTC()
}

// failure returns the error that the machine has failed with, if it has.
func (t *turn) failure() error {
	if t.overflows {
		return errTooManyActions
	}
	if t.err == nil {
		return nil
	}
	err := t.err
	if actors.ErrorClass(err) == "" {
		err = troupe.Class(lifecycle.ClassMachine, err)
	}
	return troupe.Terminal(err)
}

// restore decodes a state, and makes one of an older version into one of this.
func (p *plan[I, S, O]) restore(codec actors.Codec, version int32, stored []byte) (state S, err error) {
	codec = program.StateCodec(codec)
	return p.migrated(version, func(into any) error {
		return program.Contain(func() error { return codec.Unmarshal(append([]byte{}, stored...), into) })
	})
}

// migrated is restore for a state that decode reads.
func (p *plan[I, S, O]) migrated(version int32, decode func(into any) error) (state S, err error) {
	switch from := int(version); {
	case from > p.version:
		return state, stateVersion("the state has version %d, and this program knows those up to %d: deploy the newer program again", from, p.version)
	case from == p.version:
		if err := decode(&state); err != nil {
			return state, decoding("the state", reflect.TypeFor[S](), err)
		}
		return state, nil
	default:
		state, err = p.migrate(from, decode)
		if err != nil {
			return state, stateVersion("migrate the state of version %d: %w", from, err)
		}
		return state, nil
	}
}

// stateVersion is the error of a state that this program cannot read. Another attempt may be
// executed by a program that can.
func stateVersion(format string, args ...any) error {
	return troupe.Class(lifecycle.ClassStateVersion, fmt.Errorf(format, args...))
}

// handle calls the handler of an entry.
func (p *plan[I, S, O]) handle(a *Activation[S, O], codec actors.Codec, e *persistence.MachineEntry) error {
	a.turn.at(e.N, e.At)
	defer func() { a.turn.open, a.ID = false, "" }()
	switch e.Kind {
	case persistence.EntryCancel:
		if p.cancel == nil {
			return unknownEntry("a cancel")
		}
		p.cancel(a, e.Error)
		return nil
	case persistence.EntrySignal:
		hears := p.signals[e.Name]
		if hears == nil {
			return unknownEntry(fmt.Sprintf("signal %q", e.Name))
		}
		if err := hears(a, codec, e.Payload); err != nil { // what a sender got wrong does not stop the machine
			a.turn.refused = append(a.turn.refused, persistence.RefusedSignal{Name: e.Name, Why: err.Error()})
		}
		return nil
	case persistence.EntryCompleted, persistence.EntryFailed, persistence.EntryFired:
	default:
		return unknownEntry(fmt.Sprintf("an entry of kind %d", e.Kind))
	}
	name, n := lifecycle.SpawnedAs(e.Name)
	h := p.started[name]
	if h == nil {
		return unknownEntry(fmt.Sprintf("%q, which it has started", name))
	}
	a.ID = e.Name
	return h.ended(a, codec, e, n)
}

// ended calls the handler of something that the machine has started.
func (h *handlers[S, O]) ended(a *Activation[S, O], codec actors.Codec, e *persistence.MachineEntry, n int32) error {
	switch e.Kind { //nolint:exhaustive // the others are no ends
	case persistence.EntryFired:
		if a.turn.canceled[n] {
			return nil
		}
		if h.fired == nil {
			return unknownEntry("timer " + e.Name)
		}
		h.fired(a)
	case persistence.EntryCompleted:
		if h.completed != nil {
			return h.completed(a, codec, e.Payload)
		}
	case persistence.EntryFailed:
		why := &troupe.StepError{Step: e.Name, Class: e.Class, Text: e.Error}
		switch {
		case a.turn.canceled[n]:
		case h.failed != nil:
			h.failed(a, why)
		default:
			return troupe.Terminal(troupe.Class(lifecycle.ClassActivityFailed, why))
		}
	}
	return nil
}

// unknownEntry is the error of an entry that this program does not declare. Another attempt may be
// executed by a program that does.
func unknownEntry(what string) error {
	return troupe.Class(lifecycle.ClassUnknownEntry, errors.New("the machine does not declare "+what+
		": the program that did is of another version; declare it until no run has any open, or give the state a new Version"))
}
