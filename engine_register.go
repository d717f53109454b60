package troupe

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/workflow"
)

// program is one registered workflow without its Go types.
type program struct {
	name  string
	bound bound
}

// Register makes a workflow known to an engine and returns its typed handle.
// All problems of the definition are reported at once. Register before Start.
// The same workflow may be registered once per engine.
func Register[I, O any](e *Engine, w *Workflow[I, O]) (*Handle[I, O], error) {
	if w == nil {
		return nil, errors.New("register workflow: the workflow is nil: make one with Define")
	}
	b, err := w.bind(e.binding())
	if err != nil {
		return nil, fmt.Errorf("register workflow %q: %w", w.name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != phaseNew {
		return nil, fmt.Errorf("register workflow %q: %w: register before Start", w.name, ErrStarted)
	}
	if e.programs[w.name] != nil {
		return nil, fmt.Errorf("register workflow %q: a workflow of this name is registered: give one of them another name", w.name)
	}
	p := &program{name: w.name, bound: b}
	e.programs[w.name] = p
	e.order = append(e.order, p)
	return &Handle[I, O]{engine: e, workflow: w, program: p}, nil
}

// registered returns the graphs of all registered workflows, the queues to
// make known, and the step functions.
func (e *Engine) graphs() []*workflow.Graph {
	graphs := make([]*workflow.Graph, 0, len(e.order))
	for _, p := range e.order {
		graphs = append(graphs, p.bound.graph)
	}
	return graphs
}
