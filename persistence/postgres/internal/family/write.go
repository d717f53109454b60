package family

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Writes are what one transaction writes, by column.
type Writes struct {
	ids, runs, keys               pgsql.UUIDs // child runs that begin
	steps, definitions, remaining []int32
	abandoned                     []bool
	traces                        []string
	inputs, edges                 [][]byte

	given      pgsql.UUIDs // steps that get the outputs of their child runs
	givenSteps []int32
	done       []bool

	told      pgsql.UUIDs
	toldSteps []int32
}

// Begin stores the child run of a step. number is that of its definition, remaining its
// obligations, edges what conditions say about its input.
func (w *Writes) Begin(of workflow.TaskID, child *persistence.Child, number, remaining int32, abandoned bool, edges []byte) {
	w.ids, w.runs, w.keys = append(w.ids, child.Run), append(w.runs, of.Run), append(w.keys, child.KeyRun)
	w.steps, w.definitions, w.remaining = append(w.steps, of.Step), append(w.definitions, number), append(w.remaining, remaining)
	w.abandoned, w.traces = append(w.abandoned, abandoned), append(w.traces, child.TraceContext)
	w.inputs, w.edges = append(w.inputs, child.Input), append(w.edges, edges)
}

// Give gives a step the output of its child run. done: the step has completed.
func (w *Writes) Give(to workflow.TaskID, done bool) {
	w.given, w.givenSteps, w.done = append(w.given, to.Run), append(w.givenSteps, to.Step), append(w.done, done)
}

// TellParent lets a run hear that a child run of it has ended.
func (w *Writes) TellParent(run workflow.RunID) {
	w.TellChild(workflow.TaskID{Run: run, Step: lifecycle.RunStep})
}

// TellChild lets the child run of a step, if it has not ended, hear that the step was canceled.
func (w *Writes) TellChild(of workflow.TaskID) {
	w.told, w.toldSteps = append(w.told, of.Run), append(w.toldSteps, of.Step)
}

// Begins reports whether child runs begin.
func (w *Writes) Begins() bool { return len(w.ids) > 0 }

// Queue adds the statements. submitted is called if the intake has something to do.
func (w *Writes) Queue(b *pgsql.Batch, now time.Time, submitted func()) {
	if w.Begins() {
		b.Add("insert_children", pgsql.Named{
			"ids": w.ids, "runs": w.runs, "steps": w.steps, "definitions": w.definitions, "remaining": w.remaining, "key_runs": w.keys,
			"abandoned": w.abandoned, "traces": w.traces, "inputs": w.inputs, "edges": w.edges, "origin": persistence.OriginChild,
			"now": pgsql.Instant(now),
		})
		submitted()
	}
	if len(w.given) > 0 {
		b.Add("give_outputs", pgsql.Named{"runs": w.given, "steps": w.givenSteps, "done": w.done})
	}
	if len(w.told) > 0 {
		b.Add("tell_family", pgsql.Named{"runs": w.told, "steps": w.toldSteps}).QueryRow(func(row pgx.Row) error {
			var count int
			err := row.Scan(&count)
			if count > 0 {
				submitted()
			}
			return err
		})
	}
}
