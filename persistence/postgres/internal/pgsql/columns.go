package pgsql

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// TaskColumns are rows of update_tasks, by column.
type TaskColumns struct {
	runs                           UUIDs
	steps, pending, attempts, lost []int32
	states, flags, marks           []int16
	epochs, pods                   []int64
	wakes                          Instants
	classes, errors                []string
	outputs                        [][]byte
	entries                        []int64
}

// Add adds a task as it is to be, with marks of what happens to it now.
func (c *TaskColumns) Add(id workflow.RunID, t *lifecycle.Task, marks int16, output []byte) {
	c.runs, c.steps, c.pending = append(c.runs, id), append(c.steps, t.Step), append(c.pending, t.Pending)
	c.attempts, c.lost = append(c.attempts, t.Attempt), append(c.lost, t.Lost)
	c.states, c.flags, c.marks = append(c.states, int16(t.State)), append(c.flags, int16(t.Flags)), append(c.marks, marks)
	c.epochs, c.pods, c.wakes = append(c.epochs, t.Epoch), append(c.pods, t.Pod), append(c.wakes, t.WakeAt)
	c.classes, c.errors, c.outputs = append(c.classes, t.Class), append(c.errors, t.Error), append(c.outputs, output)
	c.entries = append(c.entries, t.Entry)
}

// Queue adds the statement.
func (c *TaskColumns) Queue(b *Batch, now time.Time) {
	if len(c.runs) > 0 {
		b.Add("update_tasks", Named{
			"runs": c.runs, "steps": c.steps, "states": c.states, "flags": c.flags, "pending": c.pending, "epochs": c.epochs,
			"attempts": c.attempts, "lost": c.lost, "pods": c.pods, "wakes": c.wakes, "classes": c.classes, "errors": c.errors,
			"marks": c.marks, "outputs": c.outputs, "entries": c.entries, "now": Instant(now),
		})
	}
}

// MadeColumns are rows of insert_tasks, by column.
type MadeColumns struct {
	runs                              UUIDs
	steps, handlers, declared, owners []int32
	queues, states, traits, flags     []int16
	marks                             []int16
	epochs, sleeps, startTimeouts     []int64
	pods                              []int64
	classes, errors, names            []string
	entries                           []int64
	wakes                             Instants
}

// Add adds a task that a decision made, with marks of what happens to it now, and which handler
// and queue it has.
func (c *MadeColumns) Add(id workflow.RunID, t *lifecycle.Task, marks int16, handler int32, queue int16) {
	declared, owner, name := int32(-1), int32(-1), ""
	if t.Dynamic != nil {
		declared, owner, name = t.Dynamic.Declared, t.Dynamic.Owner, t.Dynamic.Name
	}
	c.runs, c.steps, c.handlers = append(c.runs, id), append(c.steps, t.Step), append(c.handlers, handler)
	c.queues, c.states = append(c.queues, queue), append(c.states, int16(t.State))
	c.traits, c.flags, c.marks = append(c.traits, int16(t.Traits)), append(c.flags, int16(t.Flags)), append(c.marks, marks)
	c.epochs, c.sleeps, c.startTimeouts = append(c.epochs, t.Epoch), append(c.sleeps, int64(t.Sleep)), append(c.startTimeouts, int64(t.StartTimeout))
	c.classes, c.errors, c.names = append(c.classes, t.Class), append(c.errors, t.Error), append(c.names, name)
	c.pods = append(c.pods, t.Pod)
	c.declared, c.owners = append(c.declared, declared), append(c.owners, owner)
	c.entries, c.wakes = append(c.entries, t.Entry), append(c.wakes, t.WakeAt)
}

// Queue adds the statement.
func (c *MadeColumns) Queue(b *Batch, now time.Time) {
	if len(c.runs) > 0 {
		b.Add("insert_tasks", Named{
			"runs": c.runs, "steps": c.steps, "handlers": c.handlers, "queues": c.queues, "states": c.states, "traits": c.traits,
			"flags": c.flags, "epochs": c.epochs, "sleeps": c.sleeps, "start_timeouts": c.startTimeouts, "marks": c.marks,
			"classes": c.classes, "errors": c.errors, "declared": c.declared, "owners": c.owners, "names": c.names, "pods": c.pods, "entries": c.entries,
			"wakes": c.wakes, "now": Instant(now),
		})
	}
}

// ProgressColumns are rows of save_progress, by column.
type ProgressColumns struct {
	runs     UUIDs
	steps    []int32
	epochs   []int64
	progress [][]byte
}

// Add keeps progress of a task that stands at epoch.
func (c *ProgressColumns) Add(task workflow.TaskID, epoch int64, progress []byte) {
	c.runs, c.steps = append(c.runs, task.Run), append(c.steps, task.Step)
	c.epochs, c.progress = append(c.epochs, epoch), append(c.progress, progress)
}

// Queue adds the statement.
func (c *ProgressColumns) Queue(b *Batch, pod int64) {
	if len(c.runs) > 0 {
		b.Add("save_progress", Named{
			"runs": c.runs, "steps": c.steps, "epochs": c.epochs, "progress": c.progress, "pod": pod,
		})
	}
}
