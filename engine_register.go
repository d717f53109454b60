package troupe

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// Definition is what an engine runs: a [*Workflow]. Only packages of this module
// can implement it.
type Definition[I, O any] interface {
	// Name returns the name under which runs are triggered.
	Name() string
	// Validate returns everything that is wrong as a [*DefinitionError], or nil.
	Validate() error
	// Program returns what an engine runs. It ignores its arguments: they say that
	// inputs are of type I and outputs of type O.
	Program(*I, *O) program.Program
}

// Register makes a workflow known to an engine and returns its typed handle.
// All problems of the definition are reported at once. Register before Start.
// The same workflow may be registered once per engine.
func Register[I, O any](e *Engine, d Definition[I, O]) (*Handle[I, O], error) {
	if v := reflect.ValueOf(d); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("register workflow: the workflow is nil: make one with Define")
	}
	name := d.Name()
	bound, err := bind(d, e.config.binding(e))
	if err != nil {
		return nil, fmt.Errorf("register workflow %q: %w", name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != phaseNew {
		return nil, fmt.Errorf("register workflow %q: %w: register before Start", name, ErrStarted)
	}
	if e.programs[name] != nil {
		return nil, fmt.Errorf("register workflow %q: a workflow of this name is registered: give one of them another name", name)
	}
	e.programs[name] = bound
	e.order = append(e.order, bound)
	return &Handle[I, O]{engine: e, program: bound}, nil
}

// graphs returns the graphs of all registered workflows.
func (e *Engine) graphs() []*workflow.Graph {
	graphs := make([]*workflow.Graph, 0, len(e.order))
	for _, p := range e.order {
		graphs = append(graphs, p.Graph)
	}
	return graphs
}

// checkChildren returns which workflows are missing whose runs steps begin.
func (e *Engine) checkChildren() error {
	var all []error
	for _, p := range e.order {
		var problems []workflow.Problem
		for i := range p.Graph.Nodes {
			n := &p.Graph.Nodes[i]
			if n.Kind != workflow.ChildRun {
				continue
			}
			switch child := e.programs[n.Child.Workflow]; {
			case child == nil:
				problems = append(problems, workflow.Problem{
					Step: n.Name, Field: "workflow", Text: fmt.Sprintf("workflow %q is not registered with this engine", n.Child.Workflow), Remedy: "register it, too",
				})
			case !slices.ContainsFunc(p.Children, func(g *workflow.Graph) bool { return g.Hash == child.Graph.Hash }):
				problems = append(problems, workflow.Problem{
					Step: n.Name, Field: "workflow", Text: fmt.Sprintf("another workflow %q is registered with this engine", n.Child.Workflow),
					Remedy: "register the one that Child names",
				})
			}
		}
		if len(problems) > 0 {
			all = append(all, fmt.Errorf("workflow %q: %w", p.Graph.Name, &DefinitionError{Workflow: p.Graph.Name, Problems: problems}))
		}
	}
	return errors.Join(all...)
}
