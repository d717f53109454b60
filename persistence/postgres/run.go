package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/elements"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
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
	definition *registry.Definition
	tasks      map[int32]*task
	complete   bool          // every task that has not ended is among tasks
	inbox      []undelivered // signals that no step has taken, in the order of their delivery
	inboxKnown bool
	arriving   []undelivered // signals among the facts, in order
	listed     bool
	plain      bool // begun without a decision
	tenant     string
	family     persistence.Family
	begins     map[int32]begun           // child runs, by the step that reports of this pass are of
	maps       []lifecycle.Map           // how far they have come, those that were asked for
	spreads    map[int32]*elements.Begun // maps that begin, by the step that reports of this pass are of
	activated  *machines.Activated       // by a report of this pass, as the decision has applied it
	continues  bool                      // with another definition
	granted    map[int32]bool            // tasks that the decision has queued and the record grants
	touched    map[int32]bool            // tasks that differ from their stored rows whatever is decided

	heard    []lifecycle.Fact // of its family, until they are among the facts
	facts    []lifecycle.Fact
	decision lifecycle.Decision
	reason   *string // cancel_reason to store
}

// begun is a child run that a report begins.
type begun struct {
	*persistence.Child
	of *registry.Definition
}

// undelivered is a signal in the inbox of a run.
type undelivered struct {
	id, name string
	n        int64 // 0: it is not delivered
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
	rows := lifecycle.Rows{Complete: r.complete, Tasks: make([]lifecycle.Task, 0, len(r.tasks)), InboxKnown: r.inboxKnown, Maps: r.maps}
	for _, t := range r.tasks {
		one := t.Task
		if one.Traits.Has(workflow.TraitWaits) {
			one.Signal = r.definition.Node(one.Step).Signal
		}
		rows.Tasks = append(rows.Tasks, one)
	}
	for _, e := range r.inbox {
		rows.Inbox = append(rows.Inbox, lifecycle.Entry{N: e.n, Name: e.name})
	}
	slices.SortFunc(rows.Tasks, func(a, b lifecycle.Task) int { return int(a.Step) - int(b.Step) })
	return rows
}

// decided returns a task as the decision leaves it.
func (r *run) decided(step int32) lifecycle.Task {
	if made := r.decision.Created; len(made) > 0 { // they are numbered in turn, but for a failure handler
		if i := int(step - made[0].Step); i >= 0 && i < len(made) && made[i].Step == step {
			return made[i]
		}
	}
	for _, list := range [][]lifecycle.Task{r.decision.Tasks, r.decision.Created} {
		if i := slices.IndexFunc(list, func(t lifecycle.Task) bool { return t.Step == step }); i >= 0 {
			return list[i]
		}
	}
	return lifecycle.Task{Step: step}
}

// running reports whether a task runs. Only a report changes that, so the rows
// from before the decision tell.
func (r *run) running() bool {
	for _, t := range r.tasks {
		if t.State == lifecycle.Running {
			return true
		}
	}
	return false
}

// declared returns the step whose function a task executes.
func (r *run) declared(step int32) int32 {
	if t := r.decided(step); t.Dynamic != nil {
		return t.Dynamic.Declared
	}
	return step
}

// nameOf returns the name of a task.
func (r *run) nameOf(step int32) string {
	if t := r.decided(step); t.Dynamic != nil {
		return t.Dynamic.Name
	}
	return r.definition.Node(step).Name
}

// activate lets a run continue with the program that has executed an activation.
func (r *run) activate(t *persistence.Transition, program *registry.Definition) {
	r.activated = &machines.Activated{Activation: t.Activation, Epoch: t.Epoch, Events: r.core.Events}
	r.continues = r.number != program.Number
	r.definition, r.number = program, program.Number
	r.tasks[0].handler, r.tasks[0].queue = program.Handlers[0], program.QueueOf(0, r.queue)
}

// nodeOf returns the declaration of a task, or nil. What a machine has started is of the step that
// its name says: the run may have got another definition since.
func (r *run) nodeOf(step int32) *workflow.Node {
	t := r.tasks[step]
	switch {
	case t == nil:
		return nil
	case t.IsSpawned():
		name, _ := lifecycle.SpawnedAs(t.Dynamic.Name)
		if i := slices.IndexFunc(r.definition.Graph.Nodes, func(n workflow.Node) bool { return n.Name == name }); i >= 0 {
			return &r.definition.Graph.Nodes[i]
		}
		return nil
	case t.Dynamic != nil:
		step = t.Dynamic.Declared
	}
	return r.definition.Node(step)
}

// scanRun reads a row of load_runs.
func scanRun(row pgx.CollectableRow) (*run, error) {
	r, err := pgsql.ScanRun(row)
	return &run{
		id: r.ID, number: r.Number, group: r.Group, queue: r.Queue, core: r.Core, failedStep: r.FailedStep, tenant: r.Tenant, family: r.Family,
		tasks: map[int32]*task{},
	}, err
}

// scanTask reads a row of load_tasks and load_open_tasks.
func scanTask(row pgx.CollectableRow) (id workflow.RunID, t *task, err error) {
	r, err := pgsql.ScanTask(row)
	return r.Run, &task{Task: r.Task, handler: r.Handler, queue: r.Queue}, err
}

// taskIDs are tasks of which something is to be done; lifecycle.RunStep stands for all of
// a run's that have not ended.
type taskIDs []workflow.TaskID
