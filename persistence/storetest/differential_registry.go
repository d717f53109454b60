package storetest

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/workflow"
)

// lateQueue is a queue that is not known from the start.
const lateQueue = "late"

// register makes workflows known: new versions of one, and some again.
func (w *differ) register() {
	var queues []string
	if w.chance(3) {
		queues = []string{lateQueue}
	}
	w.registerGraphs([]*workflow.Graph{Versioned(1 + w.IntN(4)), anyOf(w, w.graphs)}, queues)
}

// registerGraphs makes workflows known to both stores. Numbers are compared by
// when they were first seen.
func (w *differ) registerGraphs(graphs []*workflow.Graph, queues []string) {
	what := fmt.Sprintf("register %d workflows and queues %v", len(graphs), queues)
	both(w, what, func(s *side) ([][]int, error) {
		numbers, err := s.Store.RegisterDefinitions(w.ctx, graphs, queues)
		if err != nil {
			return nil, err
		}
		seen := make([][]int, len(graphs))
		for i, g := range graphs {
			for j, number := range numbers[i] {
				node := g.OnFailure
				switch {
				case j < len(g.Nodes):
					node = &g.Nodes[j]
				case g.IsMachine(): // an older version of its state
					node = &g.Nodes[0]
				}
				s.steps[number] = g.Name + "/" + node.Name
				if !slices.Contains(s.known, number) {
					s.known = append(s.known, number)
				}
				seen[i] = append(seen[i], slices.Index(s.known, number))
			}
			if !slices.ContainsFunc(w.graphs, func(k *workflow.Graph) bool { return k.Hash == g.Hash }) {
				s.numbers = append(s.numbers, numbers[i])
			}
		}
		return seen, nil
	})
	for _, g := range graphs {
		if slices.ContainsFunc(w.graphs, func(k *workflow.Graph) bool { return k.Hash == g.Hash }) {
			w.saw("workflow registered again")
			continue
		}
		w.graphs = append(w.graphs, g)
		w.saw("workflow registered")
	}
}

// define reads a workflow back.
func (w *differ) define() {
	hash := anyOf(w, w.graphs).Hash
	if w.chance(3) {
		hash[0] ^= 0xff
	}
	out := both(w, fmt.Sprintf("definition %v", hash), func(s *side) (string, error) {
		g, err := s.Store.Definition(w.ctx, hash)
		if g == nil || err != nil {
			return "", err
		}
		plain := *g
		plain.OnFailure = nil
		text := fmt.Sprintf("%+v", plain)
		if g.OnFailure != nil {
			text += fmt.Sprintf(" on failure %+v", *g.OnFailure)
		}
		return text, nil
	})
	if out.Value == "" {
		w.saw("definition unknown")
		return
	}
	w.saw("definition read")
}
