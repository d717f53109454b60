package swarm

import (
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// evaluator knows the workflows of a deployment, and judges inputs.
func evaluator(deployed []*shape) actors.Evaluate {
	return func(trigger *persistence.Trigger) error {
		for _, s := range deployed {
			if s.graph.Name == trigger.Workflow {
				trigger.Definition = s.graph.Hash
				return nil
			}
		}
		return actors.ErrUnknownWorkflow
	}
}
