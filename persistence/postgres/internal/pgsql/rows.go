package pgsql

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RunRow is a row of load_runs and load_archived.
type RunRow struct {
	ID         workflow.RunID
	Number     int32 // of the definition
	Group      int32 // of the tenant; 0: not expanded yet
	Queue      int16
	Core       lifecycle.Run
	FailedStep *int32
	Tenant     string
	Family     persistence.Family
}

// ScanRun reads a RunRow.
func ScanRun(row pgx.CollectableRow) (RunRow, error) {
	var r RunRow
	var state int16
	var parent pgtype.UUID
	c, f := &r.Core, &r.Family
	err := row.Scan((*[16]byte)(&r.ID), &r.Number, &r.Group, &r.Queue, &state, &c.Remaining, &c.Events, &c.Slow, &c.Canceling,
		&c.Failing, &c.Unhandled, &c.Cut, &c.HandlerMade, &r.FailedStep, &r.Tenant, &c.Dynamic, &c.Signals,
		&parent, &f.Parent.Step, &f.Depth, &f.Abandons)
	c.State, c.Depth, f.Parent.Run = lifecycle.State(state), f.Depth, parent.Bytes
	return r, err
}

// TaskRow is a row of load_tasks, load_open_tasks and load_archived_tasks.
type TaskRow struct {
	lifecycle.Task
	Run     workflow.RunID
	Handler int32
	Queue   int16
}

// ScanTask reads a TaskRow.
func ScanTask(row pgx.CollectableRow) (TaskRow, error) {
	var (
		t                    TaskRow
		state, traits, flags int16
		children             []int32
		sleep, startTimeout  *int64
		wakeAt               *time.Time
		class, text          *string
		declared, owner      *int32
		name                 *string
	)
	err := row.Scan((*[16]byte)(&t.Run), &t.Step, &state, &traits, &flags, &t.Pending, &t.Parents, &children, &t.Epoch, &t.Attempt,
		&t.Lost, &t.Pod, &sleep, &startTimeout, &wakeAt, &class, &text, &t.Handler, &t.Queue,
		&declared, &owner, &name, &t.Entry)
	t.State, t.Traits, t.Flags = lifecycle.State(state), workflow.Traits(traits), lifecycle.Flags(flags)
	t.Children = UnpackChildren(children)
	t.Sleep, t.StartTimeout = time.Duration(OrZero(sleep)), time.Duration(OrZero(startTimeout))
	t.WakeAt, t.Class, t.Error = OrZero(wakeAt), OrZero(class), OrZero(text)
	if declared != nil {
		t.Dynamic = &lifecycle.Dynamic{Declared: *declared, Owner: OrZero(owner), Name: OrZero(name)}
	}
	return t, err
}

// Outcomes are the outcomes that an attempt gets to see, by column.
type Outcomes struct {
	Steps, Sizes    []int32
	States          []int16
	Outputs         pgtype.FlatArray[[]byte] // pgx reads a [][]byte by reflection
	Classes, Errors pgtype.FlatArray[pgtype.Text]
}

// Collect reads the rows of read_dead_parents.
func (c *Outcomes) Collect(rows pgx.Rows) error {
	var (
		step, size  int32
		state       int16
		output      []byte
		class, text pgtype.Text
	)
	_, err := pgx.ForEachRow(rows, []any{&step, &state, &size, &output, &class, &text}, func() error {
		c.Steps, c.States, c.Sizes = append(c.Steps, step), append(c.States, state), append(c.Sizes, size)
		c.Outputs = append(c.Outputs, append([]byte(nil), output...))
		c.Classes, c.Errors = append(c.Classes, class), append(c.Errors, text)
		return nil
	})
	return err
}

// DynamicTasks are dynamic tasks of a run, by step.
type DynamicTasks map[int32]lifecycle.Dynamic

// List puts the columns together. Dynamic tasks have the names that are known.
func (c *Outcomes) List(g *workflow.Graph, dynamic DynamicTasks) []persistence.Outcome {
	if len(c.Steps) == 0 {
		return nil
	}
	list := make([]persistence.Outcome, len(c.Steps))
	for i, step := range c.Steps {
		o := &list[i]
		o.Index, o.State = step, lifecycle.State(c.States[i])
		if IsDynamic(g, step) {
			o.Step = dynamic[step].Name
		} else {
			o.Step = Node(g, step).Name
		}
		o.Size, o.Output = int(max(c.Sizes[i], 0)), c.Outputs[i]
		o.Large = o.Output == nil && c.Sizes[i] >= 0
		if o.State == lifecycle.Failed {
			o.Class, o.Error = c.Classes[i].String, c.Errors[i].String
		}
	}
	return list
}

// IsDynamic reports whether a task of a run is none of the graph's steps, nor the failure
// handler's.
func IsDynamic(g *workflow.Graph, step int32) bool { return step > g.Steps() }

// Node returns the declaration of a step. The failure handler is the last.
func Node(g *workflow.Graph, step int32) *workflow.Node {
	if step == g.Steps() {
		return g.OnFailure
	}
	return &g.Nodes[step]
}

// OrEmpty returns a list that is no null as an argument.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
