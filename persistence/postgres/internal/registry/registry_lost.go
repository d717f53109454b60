package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RegisterAgain registers what this store registered and the database does not
// know, and forgets what was learned of the database, which may be another one.
// A pod that joins does so, too: its row is younger than its definitions, so
// that it goes with them, and pods are fenced by it.
func (s *Registry) RegisterAgain(ctx context.Context, queues []string) error {
	graphs, known := s.Catalog.registered()
	lost, err := s.lostOf(ctx, graphs)
	if err != nil {
		return err
	}
	numbers, err := s.RegisterDefinitions(ctx, lost, append(known, queues...))
	if err != nil {
		return err
	}
	for i, g := range lost {
		if !slices.Equal(s.Catalog.firstNumbers(g.Hash), numbers[i]) {
			return numberedOtherwise(g)
		}
	}
	s.Relearned()
	s.Catalog.Forget() // not before they are there to be learned again
	return s.LoadQueues(ctx)
}

// lostOf returns the graphs that the database does not know.
func (s *Registry) lostOf(ctx context.Context, graphs []*workflow.Graph) ([]*workflow.Graph, error) {
	if len(graphs) == 0 {
		return nil, nil
	}
	found, err := s.findNumbers(ctx, s.Conns, graphs)
	if err != nil {
		return nil, err
	}
	var lost []*workflow.Graph
	for _, g := range graphs {
		switch d, is := found[g.Hash]; {
		case !is:
			lost = append(lost, g)
		case !slices.Equal(s.Catalog.firstNumbers(g.Hash), d.handlers):
			return nil, numberedOtherwise(g)
		}
	}
	return lost, nil
}

// numberedOtherwise: functions were entered under numbers that mean others now.
func numberedOtherwise(g *workflow.Graph) error {
	return fmt.Errorf("workflow %s: %w", g.Name, persistence.ErrNumbersChanged)
}
