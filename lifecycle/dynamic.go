package lifecycle

import "github.com/troupe-dev/troupe/workflow"

// Dynamic says where a dynamic task comes from: one that is not of the graph, but was made
// while the run went on, because the task that owns it asked for it.
type Dynamic struct {
	Declared int32  // the step of the graph whose function it executes
	Owner    int32  // the step of the task that asked for it
	Name     string // the owner chooses it; no other task of the run has it
}

// NewDynamic returns a dynamic task of a step, for TaskReported. The step has no parents,
// and whatever its children are, they do not wait for the task. The decision gives it its
// number and its owner.
func NewDynamic(step int32, node *workflow.Node, name string) Task {
	t := NewTask(step, node)
	t.Children, t.Dynamic = nil, &Dynamic{Declared: step, Name: name}
	return t
}

// make adds dynamic tasks of an owner to the run and lets them begin, unless the run stops.
func (d *decider) make(owner int32, tasks []Task) {
	for _, t := range tasks {
		dynamic := *t.Dynamic
		dynamic.Owner = owner
		d.run.Dynamic++
		if t.Traits.Has(workflow.TraitSpawned) {
			dynamic.Name = SpawnedName(dynamic.Name, d.run.Dynamic)
		}
		t.Step, t.Dynamic = d.run.Steps+d.run.Dynamic, &dynamic
		d.settle(d.create(t), ending{step: owner})
	}
}

// create adds a task to a run that is under way. The run ends only after it, and the fast
// path of storage makes no tasks.
func (d *decider) create(t Task) *Task {
	d.run.Slow = true
	d.run.Remaining++
	d.marks = append(d.marks, mark{})
	d.tasks = append(d.tasks, t)
	if d.index != nil {
		d.index[t.Step] = len(d.tasks) - 1
	}
	return &d.tasks[len(d.tasks)-1]
}
