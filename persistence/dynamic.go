package persistence

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// DynamicMax bounds the dynamic tasks that one transition makes: each is a few rows, and
// the transaction holds the lock of the run.
const DynamicMax = 1000

// DynamicTask asks for a task that is not of the graph of its run. It executes the function
// of a step, or sleeps as one does, and gets the input of the run.
type DynamicTask struct {
	Declared string // the step, which has no parents
	Name     string // of the task; no other task or step of the run has it
}

// DynamicTasks returns the tasks that a transition of a run of a graph makes, or as ErrBadRow
// why a store refuses it.
func (t *Transition) DynamicTasks(graph *workflow.Graph) ([]lifecycle.Task, error) {
	switch {
	case t.Report != lifecycle.Succeeded || len(t.Make) == 0:
		return nil, nil
	case len(t.Make) > DynamicMax:
		return nil, fmt.Errorf("%w: a transition makes %d dynamic tasks: at most %d at once", ErrBadRow, len(t.Make), DynamicMax)
	}
	steps, taken := make(map[string]int32, len(graph.Nodes)), map[string]bool{}
	for i := range graph.Nodes {
		steps[graph.Nodes[i].Name], taken[graph.Nodes[i].Name] = int32(i), true
	}
	if graph.OnFailure != nil {
		taken[graph.OnFailure.Name] = true
	}
	tasks := make([]lifecycle.Task, 0, len(t.Make))
	for _, d := range t.Make {
		step, known := steps[d.Declared]
		why := ""
		switch {
		case graph.IsMachine():
			why = "the workflow is a machine, whose activations start all that it has"
		case !known:
			why = fmt.Sprintf("the workflow has no step %.40q", d.Declared)
		case graph.Nodes[step].Kind == workflow.Wait:
			why = fmt.Sprintf("step %q waits for a signal", d.Declared)
		case graph.Nodes[step].Kind == workflow.Map:
			why = fmt.Sprintf("step %q is a map", d.Declared)
		case graph.Nodes[step].Pending > 0:
			why = fmt.Sprintf("step %q has parents", d.Declared)
		case d.Name == "" || len(d.Name) > workflow.NameMax || !utf8.ValidString(d.Name) || strings.ContainsRune(d.Name, 0):
			why = fmt.Sprintf("a name has 1 to %d bytes of UTF-8 without NUL", workflow.NameMax)
		case taken[d.Name]:
			why = "another one has this name"
		}
		if why != "" {
			return nil, fmt.Errorf("%w: dynamic task %.40q: %s", ErrBadRow, d.Name, why)
		}
		taken[d.Name] = true
		tasks = append(tasks, lifecycle.NewDynamic(step, &graph.Nodes[step], d.Name))
	}
	return tasks, nil
}
