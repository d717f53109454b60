package memory

import (
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// taker returns the pod that gets first tasks of a batch at once, and how many;
// nil: they queue up.
func (b *batch) taker(triggers []persistence.Trigger, take persistence.GrantRequest) (p *pod, count int) {
	p, err := b.s.living(take.Pod, b.now)
	if err != nil || b.s.claims[claimKey{take.Pod, take.Claim}] != nil {
		return nil, 0
	}
	first, waiting := 0, false
	seen := map[workflow.RunID]bool{}
	for i := range triggers {
		t := &triggers[i]
		d := b.s.definitions[t.Definition]
		if seen[t.Run] || d == nil || !b.s.simple(t) || !d.plain() {
			return nil, 0
		}
		seen[t.Run] = true
		for step := range d.graph.Nodes {
			if d.graph.Nodes[step].Pending > 0 || d.graph.Nodes[step].Traits.Has(workflow.TraitSpawned) {
				continue
			}
			name := d.queueOf(int32(step), t.Queue)
			if !slices.Contains(take.Handlers, d.handlers[step]) || !slices.Contains(take.Queues, name) {
				return nil, 0
			}
			waiting = waiting || len(b.s.queue(name).rows) > 0
			first++
		}
	}
	if count = lifecycle.Take(first, take.Limit, waiting); count == 0 {
		return nil, 0
	}
	return p, count
}

// simple reports whether a trigger stores a new run that starts now, with
// nothing to look up but its tenant.
func (s *Store) simple(t *persistence.Trigger) bool {
	return s.runs[t.Run] == nil && t.Key == "" && t.Signal == nil && t.At.IsZero() && len(t.Edges) == 0 && (t.Queue == "" || s.queues[t.Queue] != nil) &&
		s.tenants[t.Tenant] != nil && !s.holdsBack(t) && s.refuseTrigger(*t) == nil && s.refuse(t.Input) == nil
}

// anyStored reports whether a run of the batch exists.
func (s *Store) anyStored(triggers []persistence.Trigger) bool {
	return slices.ContainsFunc(triggers, func(t persistence.Trigger) bool { return s.runs[t.Run] != nil })
}

// plain reports whether the first steps go straight into their queues, and every pod knows the
// workflow.
func (d *definition) plain() bool {
	return persistence.ProtocolOf(d.graph) == 0 && !slices.ContainsFunc(d.graph.Nodes, func(n workflow.Node) bool {
		return n.Pending == 0 && (n.Kind != workflow.Func || n.StartTimeout > 0)
	})
}
