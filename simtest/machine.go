package simtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// machineStep is the name of the step that is a machine itself.
const machineStep = "machine"

const deterministic = "handlers are deterministic"

// callFunction is the Call of a StepFunction.
type callFunction func(ctx context.Context, in actors.Inputs) (actors.Output, error)

// activate executes an activation of a machine twice, from the same state: both give the same, or a
// handler reads something besides its state, its arguments and its activation.
func (s *Sim) activate(ctx context.Context, call callFunction, in actors.Inputs) (actors.Output, error) {
	s.mu.Lock()
	run := actors.AttemptFrom(ctx).Info().Run
	of := s.began[run]
	of.input, of.at = bytes.Clone(in.Input), in.BegunAt
	s.mu.Unlock()
	out, err := call(ctx, fresh(in, len(in.Machine.Entries)))
	if err == nil {
		of.migrated = of.migrated || in.Machine.Version != 0 && in.Machine.Version != out.Activation.Version
	}
	s.mu.Lock()
	s.began[run] = of
	s.mu.Unlock()
	again, failed := call(ctx, fresh(in, len(in.Machine.Entries)))
	if what := difference(out, err, again, failed); what != "" {
		s.broken(deterministic, fmt.Sprintf("%s of machine %q gives two different results for the same state and event: %s",
			culprit(ctx, call, in), actors.AttemptFrom(ctx).Info().Workflow, what))
	}
	return out, err
}

// began is what a machine begins with.
type began struct {
	input    []byte
	at       time.Time
	migrated bool // its state was made by handlers of more than one version
}

// fresh returns the inputs of an activation that handles the first of its entries only. What a
// handler does to the bytes does not show in others.
func fresh(in actors.Inputs, entries int) actors.Inputs {
	in.Once, in.Input = false, bytes.Clone(in.Input)
	g := *in.Machine
	g.State, g.Entries = bytes.Clone(g.State), slices.Clone(g.Entries[:entries])
	for i := range g.Entries {
		g.Entries[i].Payload = bytes.Clone(g.Entries[i].Payload)
	}
	in.Machine = &g
	return in
}

// culpritTries is how often each handler is called to find the one that is not deterministic: the
// order of a map of few keys is often the same twice.
const culpritTries = 50

// culprit names the handler that gives different results.
func culprit(ctx context.Context, call callFunction, in actors.Inputs) string {
	for entries := range len(in.Machine.Entries) + 1 {
		if entries == 0 && in.Machine.Version > 0 {
			continue
		}
		first, err := call(ctx, fresh(in, entries))
		for range culpritTries {
			if next, failed := call(ctx, fresh(in, entries)); difference(first, err, next, failed) != "" {
				if entries == 0 {
					return "OnStart"
				}
				return handlerOf(&in.Machine.Entries[entries-1])
			}
		}
	}
	return "one of the handlers"
}

// handlerOf names the handler of an entry.
func handlerOf(e *persistence.MachineEntry) string {
	switch e.Kind {
	case persistence.EntryCompleted:
		return fmt.Sprintf("OnCompleted of %q", e.Name)
	case persistence.EntryFailed:
		return fmt.Sprintf("OnFailed of %q", e.Name)
	case persistence.EntryFired:
		return fmt.Sprintf("OnTimer of %q", e.Name)
	case persistence.EntrySignal:
		return fmt.Sprintf("OnSignal of %q", e.Name)
	case persistence.EntryCancel:
		return "OnCancel"
	}
	return fmt.Sprintf("the handler of entry %d", e.N)
}

// difference says what two executions of an activation differ in; "": in nothing.
func difference(a actors.Output, failed error, b actors.Output, again error) string {
	switch {
	case fmt.Sprint(failed) != fmt.Sprint(again):
		return fmt.Sprintf("the errors are %v and %v", failed, again)
	case failed != nil:
		return ""
	case !bytes.Equal(a.Activation.State, b.Activation.State):
		return fmt.Sprintf("the states are %s and %s", a.Activation.State, b.Activation.State)
	case !bytes.Equal(a.Payload, b.Payload):
		return fmt.Sprintf("the outputs are %s and %s", a.Payload, b.Payload)
	case !slices.Equal(a.Activation.Cancel, b.Activation.Cancel):
		return fmt.Sprintf("what is canceled is %v and %v", a.Activation.Cancel, b.Activation.Cancel)
	case !slices.EqualFunc(a.Activation.Start, b.Activation.Start, func(x, y persistence.Spawn) bool {
		return x.Step == y.Step && x.WakeAt.Equal(y.WakeAt) && bytes.Equal(x.Input, y.Input)
	}):
		return fmt.Sprintf("what is started is %v and %v", starts(a.Activation), starts(b.Activation))
	}
	return ""
}

func starts(a *persistence.Activation) (list []string) {
	for i := range a.Start {
		s := &a.Start[i]
		text := s.Step + " " + string(s.Input)
		if !s.WakeAt.IsZero() {
			text += s.WakeAt.String()
		}
		list = append(list, text)
	}
	return list
}

// replay judges a run of a machine that has ended: the entries that are kept of it lead to its
// state again, handled at once.
func (s *Sim) replay(run *snapshot.Run) {
	function, known := s.machines[run.Graph.Nodes[0].Fingerprint]
	s.mu.Lock()
	first, begun := s.began[run.ID]
	s.mu.Unlock()
	if !known || !begun || first.migrated { // by handlers of another version
		return
	}
	row, err := s.world.Model().Machine(s.context, run.Tenant, run.ID, persistence.EntryQuery{After: run.Machine.Base, Limit: persistence.EntriesMax})
	if err != nil || row.Version == 0 || row.More {
		return
	}
	entries := slices.DeleteFunc(row.Entries, func(e persistence.MachineEntry) bool { return e.N > row.Taken })
	in := actors.Inputs{Input: first.input, BegunAt: first.at, Machine: &persistence.MachineGrant{
		Version: row.BaseVersion, State: row.BaseState, Taken: row.Base, Arrived: row.Taken, Started: row.BaseStarted, Entries: entries,
	}}
	attempt := replaying{actors.TaskInfo{Run: run.ID, Workflow: run.Graph.Name, Tenant: run.Tenant, Step: run.Graph.Nodes[0].Name, Item: -1}}
	out, err := function.Call(actors.WithAttempt(s.context, attempt), in)
	switch {
	case err != nil:
		s.world.Fail(deterministic, "the entries of %s, a run of machine %q, cannot be handled again: %v", s.nameOf(run.ID), run.Graph.Name, err)
	case !bytes.Equal(out.Activation.State, row.State):
		s.world.Fail(deterministic, "the entries of %s, a run of machine %q, lead to the state %s when they are handled again, and its state is %s",
			s.nameOf(run.ID), run.Graph.Name, out.Activation.State, row.State)
	}
}

// replaying is the attempt of a replay.
type replaying struct{ about actors.TaskInfo }

func (r replaying) Info() actors.TaskInfo  { return r.about }
func (r replaying) Heartbeat([]byte) error { return nil }
func (r replaying) Tx() any                { return nil }
func (r replaying) Waits(bool)             {}

// stepName is the name of a task of a run.
func stepName(run *snapshot.Run, step int32) string {
	if t := run.Task(step); t != nil && t.Dynamic != nil {
		return t.Dynamic.Name
	}
	if step == lifecycle.RunStep || int(step) >= len(run.Graph.Nodes) {
		return ""
	}
	return run.Graph.Nodes[step].Name
}
