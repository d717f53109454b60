package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// activating judges what an activation is given, if its attempt holds the machine.
func (m *machinery) activating(about *actors.TaskInfo, in actors.Inputs, version int32) {
	s := m.oracle.seed
	run, ok := s.world.Model().RunSnapshot(about.Run)
	if !ok {
		m.fail("I2", about.Run, "it is executed and does not exist")
		return
	}
	w, t, g := m.of(&run), run.Task(0), in.Machine
	epoch, err := strconv.ParseInt(about.AttemptID[strings.LastIndexByte(about.AttemptID, '/')+1:], 10, 64)
	if err != nil || t.State != lifecycle.Running || t.Epoch != epoch {
		return // it has lost the machine meanwhile
	}
	if order := s.client.orders[s.nameOf(about.Run)]; g.Version == 0 && order != nil && !bytes.Equal(order.input, in.Input) {
		m.fail("I5", about.Run, "it got another input")
	}
	if g.Version == 0 {
		w.input, w.begunAt = bytes.Clone(in.Input), in.BegunAt
	}
	if version < w.version {
		m.fail("I17", about.Run, "a program of version %d executes an activation of state %d", version, w.version)
	}
	if g.Taken != w.taken || g.Version != w.version || !bytes.Equal(g.State, w.state) || int(g.Started) != len(w.started) || g.Arrived < g.Taken || g.Arrived > int64(len(w.entries)) {
		m.fail("I17", about.Run, "an activation begins with the state %d %s, entries %d to %d and %d things started; the last one left %d %s at %d, and %d",
			g.Version, g.State, g.Taken, g.Arrived, g.Started, w.version, w.state, w.taken, len(w.started))
		return
	}
	var heard []persistence.MachineEntry
	for _, e := range w.entries[g.Taken:g.Arrived] {
		if !e.unheard {
			heard = append(heard, e.MachineEntry)
		}
	}
	same := slices.EqualFunc(heard, g.Entries, func(a, b persistence.MachineEntry) bool {
		return a.N == b.N && a.Kind == b.Kind && a.Name == b.Name && a.Class == b.Class && a.At.Equal(b.At) && bytes.Equal(a.Payload, b.Payload)
	})
	if !same {
		m.fail("I16", about.Run, "an activation is given the entries %v; these have come: %v", names(g.Entries), names(heard))
	}
	if len(heard) > 1 {
		s.saw(SawEntriesTogether)
	}
}

func names(entries []persistence.MachineEntry) (list []string) {
	for i := range entries {
		list = append(list, fmt.Sprintf("%d: %d %s", entries[i].N, entries[i].Kind, entries[i].Name))
	}
	return list
}

// end judges at the end that the entries which are kept of each machine lead to its state.
func (m *machinery) end() {
	s := m.oracle.seed
	for id, w := range m.runs {
		run, _ := s.world.Model().RunSnapshot(id)
		row, err := s.world.Model().Machine(s.ctx, run.Tenant, id, persistence.EntryQuery{After: run.Machine.Base, Limit: persistence.EntriesMax})
		if err != nil {
			m.fail("I17", id, "its entries cannot be read: %v", err)
			continue
		}
		if row.Version == 0 {
			continue
		}
		g := persistence.MachineGrant{Version: row.BaseVersion, State: row.BaseState, Taken: row.Base, Arrived: row.Taken}
		for i := range row.Entries {
			if row.Entries[i].N <= row.Taken {
				g.Entries = append(g.Entries, row.Entries[i])
			}
		}
		shape := s.shapeOf(run.Graph)
		state := shape.replayed(w.input, w.begunAt, &g)
		if !bytes.Equal(state, row.State) {
			m.fail("I17", id, "its entries lead to %s, and its state is %s", state, row.State)
		}
	}
}

// activate is the function of a machine.
func (s *seed) activate(p *sim.Pod, shape *shape) func(context.Context, actors.Inputs) (actors.Output, error) {
	return func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
		about := actors.AttemptFrom(ctx).Info()
		s.oracle.keyed(&about)
		s.oracle.attempt(p, &about)
		s.oracle.machines.activating(&about, in, shape.rules.version)
		defer s.execute(ctx, p, &about)()
		place := s.nameOf(about.Run) + "/" + about.Step
		if err := s.dally(ctx, p, place); err != nil {
			return actors.Output{}, err
		}
		decided, output, done, err := shape.play(in.Input, in.BegunAt, in.Machine)
		switch {
		case errors.Is(err, errMachine):
			return actors.Output{}, actors.Terminal(err)
		case err != nil:
			return actors.Output{}, err
		case s.world.Visit(StepPanic, place):
			panic(errPlanned)
		case s.world.Visit(StepError, place):
			return actors.Output{}, errPlanned
		case s.world.Visit(StepLarge, place):
			decided.State = make([]byte, payloadLimit+1)
		}
		if draw, ok := s.world.Happens(ActivationCrash, place); ok {
			s.world.After(draw.Between(0, 4*time.Millisecond), p.Crash)
		}
		s.oracle.returned(ctx, p, &about)
		if done {
			return actors.Output{Activation: decided, Payload: output}, nil
		}
		return actors.Output{Activation: decided}, nil
	}
}
