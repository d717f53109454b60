package memory

import (
	"context"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RegisterDefinitions implements persistence.Registry. It keeps the graphs
// themselves: they are never changed.
func (s *Store) RegisterDefinitions(_ context.Context, graphs []*workflow.Graph, queues []string) ([][]int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range queues {
		s.queue(name)
	}
	numbers := make([][]int32, len(graphs))
	for i, g := range graphs {
		delete(s.blocked, Blocked{Definition: g.Hash})
		if s.definitions[g.Hash] == nil {
			s.definitions[g.Hash] = s.define(g)
		}
		numbers[i] = append([]int32{}, s.definitions[g.Hash].handlers...)
	}
	return numbers, nil
}

// define numbers the handlers of a graph and makes its queues known.
func (s *Store) define(g *workflow.Graph) *definition {
	d := &definition{graph: g, steps: make(map[string]int32, len(g.Nodes))}
	add := func(n *workflow.Node) {
		d.steps[n.Name] = int32(len(d.handlers))
		d.handlers = append(d.handlers, s.handler(persistence.Handler{
			Workflow: g.Name, Step: n.Name, Fingerprint: n.Fingerprint,
		}))
		if n.Queue != "" {
			s.queue(n.Queue)
		}
	}
	for i := range g.Nodes {
		add(&g.Nodes[i])
	}
	if g.OnFailure != nil {
		add(g.OnFailure)
	}
	for _, fingerprint := range g.Older {
		d.handlers = append(d.handlers, s.handler(persistence.Handler{Workflow: g.Name, Step: g.Nodes[0].Name, Fingerprint: fingerprint}))
	}
	return d
}

// handler returns the number of a handler and gives it the next one if it is
// new.
func (s *Store) handler(h persistence.Handler) int32 {
	if s.handlers[h] == 0 {
		s.handlers[h] = int32(len(s.handlers)) + 1
	}
	return s.handlers[h]
}

// Definition implements persistence.Registry.
func (s *Store) Definition(_ context.Context, hash workflow.Hash) (*workflow.Graph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.definitions[hash]; d != nil {
		return d.graph, nil
	}
	return nil, nil
}

// StepNames implements persistence.Registry.
func (s *Store) StepNames(_ context.Context, tenant string, id workflow.RunID) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	graph := r.definition.graph
	var names []string
	for i := range graph.Nodes {
		names = append(names, graph.Nodes[i].Name)
	}
	if graph.OnFailure != nil {
		names = append(names, graph.OnFailure.Name)
	}
	for i := range r.tasks {
		if t := &r.tasks[i]; t.Dynamic != nil {
			names = append(names, make([]string, int(t.Step)+1-len(names))...)
			names[t.Step] = t.Dynamic.Name
		}
	}
	return names, nil
}
