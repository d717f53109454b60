package machines

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// Activated is an activation that a decision may apply.
type Activated struct {
	*persistence.Activation
	Epoch  int64 // of the machine, with which the activation was executed
	Events int64 // of the run before the decision
}

// Writes are what one transaction writes of machines, by column.
type Writes struct {
	runs                  pgsql.UUIDs
	taken, epochs, events []int64
	versions, started     []int32
	trimmed               pgsql.UUIDs
	most                  []int32
	states                [][]byte

	inputRuns  pgsql.UUIDs
	inputSteps []int32
	inputs     [][]byte

	continued             pgsql.UUIDs
	definitions, handlers []int32
	queues                []int16
}

// Activate keeps what an activation leaves that a decision has applied. made are the tasks that it
// starts, in the order in which it names them, and started how many it has started by now.
func (w *Writes) Activate(run workflow.RunID, a *Activated, made []lifecycle.Task, started int32) {
	state := a.State
	if a.Version == 0 || state == nil {
		state = []byte{}
	}
	w.runs, w.taken, w.versions, w.states = append(w.runs, run), append(w.taken, a.Taken), append(w.versions, a.Version), append(w.states, state)
	w.epochs, w.events = append(w.epochs, a.Epoch), append(w.events, a.Events)
	w.started = append(w.started, started-int32(len(made)))
	if most := a.Trims(started); most > 0 {
		w.trimmed, w.most = append(w.trimmed, run), append(w.most, int32(most))
	}
	for i := range a.Start {
		input := a.Start[i].Input
		if made[i].Traits.Has(workflow.TraitSleepUntil) { // it has none
			continue
		}
		if input == nil {
			input = []byte{}
		}
		w.inputRuns, w.inputSteps, w.inputs = append(w.inputRuns, run), append(w.inputSteps, made[i].Step), append(w.inputs, input)
	}
}

// Continue lets a run continue with another definition, whose machine has a handler and a queue.
func (w *Writes) Continue(run workflow.RunID, definition, handler int32, queue int16) {
	w.continued, w.definitions = append(w.continued, run), append(w.definitions, definition)
	w.handlers, w.queues = append(w.handlers, handler), append(w.queues, queue)
}

// Queue adds the statements.
func (w *Writes) Queue(b *pgsql.Batch, now time.Time) {
	if len(w.runs) > 0 {
		b.Add("write_machines", pgsql.Named{
			"runs": w.runs, "taken": w.taken, "versions": w.versions, "states": w.states, "epochs": w.epochs, "events": w.events, "started": w.started,
			"half": int64(persistence.MachineKeep / 2), "now": pgsql.Instant(now),
		})
	}
	if len(w.inputRuns) > 0 {
		b.Add("insert_inputs", pgsql.Named{"runs": w.inputRuns, "steps": w.inputSteps, "payloads": w.inputs})
	}
	if len(w.trimmed) > 0 {
		b.Add("trim_machines", pgsql.Named{"runs": w.trimmed, "most": w.most})
	}
	if len(w.continued) > 0 {
		b.Add("continue_runs", pgsql.Named{"runs": w.continued, "definitions": w.definitions, "handlers": w.handlers, "queues": w.queues})
	}
}

// Bare returns an activation without what a database may refuse of it: the values of the embedder.
func Bare(a *persistence.Activation) *persistence.Activation {
	bare := *a
	bare.State, bare.Start = []byte{}, slices.Clone(a.Start)
	for i := range bare.Start {
		bare.Start[i].Input = nil
	}
	return &bare
}

// Decided returns what lifecycle has to know of the activation of a transition, or why it is
// refused; name is the workflow of the run, known are the definitions that transitions name.
func Decided(t *persistence.Transition, name string, known map[workflow.Hash]*registry.Definition) (*lifecycle.Activation, error) {
	if t.Activation == nil {
		return nil, nil
	}
	var program *workflow.Graph
	if d := known[t.Activation.Definition]; d != nil {
		program = d.Graph
	}
	return t.Decided(name, program)
}
