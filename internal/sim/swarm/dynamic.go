package swarm

import (
	"fmt"
	"hash/fnv"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// grow has some tasks make others when they complete: one in four of the first tasks of
// runs, one or two of the same step each. Which ones follows from the seed and the names
// alone, so that a report that is sent again asks for the same.
func (s *seed) grow(t *persistence.Transition) {
	if t.Report != lifecycle.Succeeded {
		return
	}
	run, ok := s.world.Model().RunSnapshot(t.Task.Run)
	if !ok || run.Graph.IsMachine() || int(t.Task.Step) >= len(run.Graph.Nodes) || run.Graph.Nodes[t.Task.Step].Pending > 0 {
		return
	}
	name := run.Graph.Nodes[t.Task.Step].Name
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s/%s", s.number, s.nameOf(t.Task.Run), name)
	drawn := h.Sum64() >> 8
	if drawn%4 > 0 {
		return
	}
	for n := range 1 + drawn/4%2 {
		t.Make = append(t.Make, persistence.DynamicTask{Declared: name, Name: fmt.Sprintf("%s#%d", name, n+1)})
	}
}
