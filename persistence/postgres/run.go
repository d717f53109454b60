package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// run is one run under its lock, with those of its tasks that are at hand.
type run struct {
	id         workflow.RunID
	number     int32 // of the definition
	group      int32 // of the tenant; 0: not expanded yet
	queue      int16
	core       lifecycle.Run
	failedStep *int32
	definition *definition
	tasks      map[int32]*task
	complete   bool // every task that has not ended is among tasks
	listed     bool
	plain      bool           // begun without a decision
	tenant     string         // loaded runs only
	touched    map[int32]bool // tasks that differ from their stored rows whatever is decided

	facts    []lifecycle.Fact
	decision lifecycle.Decision
	reason   *string // cancel_reason to store
}

// task is a row with what decisions do not need of it.
type task struct {
	lifecycle.Task
	handler int32
	queue   int16
	output  []byte // to be stored, if the decision completes it
}

// rows are what lifecycle.Decide gets to see, by step.
func (r *run) rows() lifecycle.Rows {
	rows := lifecycle.Rows{Complete: r.complete, Tasks: make([]lifecycle.Task, 0, len(r.tasks))}
	for _, t := range r.tasks {
		rows.Tasks = append(rows.Tasks, t.Task)
	}
	slices.SortFunc(rows.Tasks, func(a, b lifecycle.Task) int { return int(a.Step) - int(b.Step) })
	return rows
}

// edges resolves the names of children. A child that this version of the
// workflow does not have is dropped.
func (d *definition) edges(results []persistence.EdgeResult) []lifecycle.EdgeFlag {
	var flags []lifecycle.EdgeFlag
	for _, e := range results {
		if child, ok := d.steps[e.Child]; ok {
			flags = append(flags, lifecycle.EdgeFlag{
				Child: child, Flags: e.Flags, Error: lifecycle.CleanText(e.Error), WakeAt: e.WakeAt,
			})
		}
	}
	return flags
}

// scanRun reads a row of load_runs.
func scanRun(row pgx.CollectableRow) (*run, error) {
	r := &run{tasks: map[int32]*task{}}
	var state int16
	c := &r.core
	err := row.Scan((*[16]byte)(&r.id), &r.number, &r.group, &r.queue, &state, &c.Remaining, &c.Events, &c.Slow, &c.Canceling,
		&c.Failing, &c.Unhandled, &c.Cut, &c.HandlerMade, &r.failedStep, &r.tenant)
	c.State = lifecycle.State(state)
	return r, err
}

// scanTask reads a row of load_tasks and load_open_tasks.
func scanTask(row pgx.CollectableRow) (id workflow.RunID, t *task, err error) {
	var (
		state, traits, flags int16
		children             []int32
		sleep, startTimeout  *int64
		wakeAt               *time.Time
		class, text          *string
	)
	t = &task{}
	err = row.Scan((*[16]byte)(&id), &t.Step, &state, &traits, &flags, &t.Pending, &t.Parents, &children, &t.Epoch, &t.Attempt,
		&t.Lost, &t.Pod, &sleep, &startTimeout, &wakeAt, &class, &text, &t.handler, &t.queue)
	t.State, t.Traits, t.Flags = lifecycle.State(state), workflow.Traits(traits), lifecycle.Flags(flags)
	t.Children = unpackChildren(children)
	t.Sleep, t.StartTimeout = time.Duration(orZero(sleep)), time.Duration(orZero(startTimeout))
	t.WakeAt, t.Class, t.Error = orZero(wakeAt), orZero(class), orZero(text)
	return id, t, err
}
