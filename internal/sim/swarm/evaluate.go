package swarm

import (
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// evaluator knows the workflows of a deployment, and judges inputs.
func evaluator(deployed []*shape) actors.Evaluate {
	return func(name string, _ []byte) (workflow.Hash, []persistence.EdgeResult, error) {
		for _, s := range deployed {
			if s.graph.Name == name {
				return s.graph.Hash, nil, nil
			}
		}
		return workflow.Hash{}, nil, actors.ErrUnknownWorkflow
	}
}
