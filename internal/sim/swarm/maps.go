package swarm

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// elementsPage is how many elements a read of the simulated database brings at most.
const elementsPage = sim.ElementsPage

// mapping is how the shapes of the load declare a map.
type mapping struct {
	window  int32
	allowed func(items int) int32
	most    uint64 // items of a list
}

func strictly(int) int32 { return 0 }

func half(items int) int32 { return int32(items / 2) }

func mapStep(name string, list int) workflow.Step {
	return workflow.Step{Name: name, Kind: workflow.Map, Parents: plain(list)}
}

// mapped compiles a workflow and says how its maps are declared.
func mapped(d workflow.Definition, maps map[string]mapping) *shape {
	s := compile(d)
	s.maps = maps
	for i := range d.Steps {
		if m, ok := maps[d.Steps[i].Name]; ok {
			s.tasks += int(m.most)
		}
	}
	return s
}

// wide returns the workflows of the load with maps.
func wide() []*shape {
	return []*shape{spread(), culled(), settled(), outer()}
}

// spread is a strict map in a diamond.
func spread() *shape {
	return mapped(workflow.Definition{Name: "spread", Output: 3, Steps: []workflow.Step{
		{Name: "plan"}, mapStep("each", 0), {Name: "beside", Parents: plain(0)}, {Name: "join", Parents: plain(1, 2)},
	}}, map[string]mapping{"each": {window: 3, allowed: strictly, most: 20}})
}

// culled is a strict map of which an element fails the first time, whatever happens.
func culled() *shape {
	d := workflow.Definition{
		Name: "culled", Output: 2, Policy: workflow.FinishSiblings,
		Steps:     []workflow.Step{{Name: "plan"}, mapStep("each", 0), {Name: "last", Parents: plain(1)}},
		OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	}
	d.Steps[1].Options.Retry = workflow.RetryPolicy{Attempts: 2}
	return mapped(d, map[string]mapping{"each": {window: 4, allowed: strictly, most: 12}})
}

// settled is a map of which half of the elements may fail, and one over what it gave. A failure
// beside them stops neither.
func settled() *shape {
	d := workflow.Definition{Name: "settled", Output: 3, Steps: []workflow.Step{
		{Name: "plan"},
		mapStep("first", 0), mapStep("second", 1),
		{Name: "join", Parents: edges(workflow.Settled, 2)},
		{Name: "fail", Options: workflow.Options{Retry: workflow.RetryPolicy{Attempts: 1}}},
	}}
	d.Steps[1].Parents, d.Steps[2].Parents = edges(workflow.Settled, 0), edges(workflow.Settled, 1)
	d.Steps[1].Options.Retry = workflow.RetryPolicy{Attempts: 1}
	return mapped(d, map[string]mapping{"first": {window: 5, allowed: half, most: 25}, "second": {window: 1, allowed: half, most: 5}})
}

// outer runs a child that has a map.
func outer() *shape {
	return compile(workflow.Definition{Name: "outer", Output: 2, Steps: []workflow.Step{
		{Name: "plan"}, childStep("inner", spread(), 0), {Name: "last", Parents: plain(1)},
	}})
}

// listOf is the list that a parent gives to a map: how long it is and what stands in it follows from
// the output alone. One in nine is empty.
func (m mapping) listOf(parent []byte) [][]byte {
	h := fnv.New64a()
	h.Write(parent)
	drawn := h.Sum64() >> 8
	if drawn%9 == 0 {
		return nil
	}
	list := make([][]byte, 1+drawn/9%m.most)
	for i := range list {
		list[i] = fmt.Appendf(nil, `"%x %d"`, drawn, i)
	}
	return list
}

// mapFunction is what a map does before its first element and after its last one.
func (s *seed) mapFunction(p *sim.Pod, shape *shape, node *workflow.Node) *actors.MapFunction {
	m, ok := shape.maps[node.Name]
	if !ok {
		return nil
	}
	return &actors.MapFunction{
		Split: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			about := actors.AttemptFrom(ctx).Info()
			list := m.listOf(in.Parents[0].Output)
			return s.inMap(ctx, p, node, &about, in, func() actors.Output {
				if len(list) == 0 {
					return actors.Output{Payload: sign(digest(about.Step, in), about.AttemptID)}
				}
				return actors.Output{Map: &persistence.Map{Items: list, Window: m.window, Allowed: m.allowed(len(list))}}
			})
		},
		Gather: func(ctx context.Context, elements *actors.Elements) (actors.Output, error) {
			about := actors.AttemptFrom(ctx).Info()
			s.oracle.gathers(&about, elements)
			return s.inMap(ctx, p, node, &about, actors.Inputs{}, func() actors.Output {
				return actors.Output{Payload: sign(gathered(about.Step, elements), about.AttemptID)}
			})
		},
	}
}

// inMap takes a while, fails as the seed says, and returns what a map returns.
func (s *seed) inMap(
	ctx context.Context, p *sim.Pod, node *workflow.Node, about *actors.TaskInfo, in actors.Inputs, output func() actors.Output,
) (actors.Output, error) {
	s.oracle.inputs(node, about, in, len(in.Parents) > 0)
	s.oracle.attempt(p, about)
	defer s.execute(ctx, p, about)()
	place := s.nameOf(about.Run) + "/" + about.Step
	if err := s.dally(ctx, p, place); err != nil {
		return actors.Output{}, err
	}
	switch {
	case s.world.Visit(StepPanic, place):
		panic(errPlanned)
	case s.world.Visit(StepError, place):
		return actors.Output{}, errPlanned
	}
	s.oracle.returned(ctx, p, about)
	return output(), nil
}

// gathered is the output of a map: it tells how each element ended, in the order of the items.
func gathered(step string, elements *actors.Elements) []byte {
	h := fnv.New128a()
	h.Write([]byte(step))
	for i := range elements.Len() {
		end := elements.At(i)
		h.Write([]byte{byte(end.State)})
		h.Write(end.Output)
	}
	return []byte(`"` + hex.EncodeToString(h.Sum(nil)) + `"`)
}

// shapeOf returns the workflow of the load that a graph is of.
func (s *seed) shapeOf(g *workflow.Graph) *shape {
	all := slices.Concat(s.old, s.new)
	at := slices.IndexFunc(all, func(w *shape) bool { return w.graph.Hash == g.Hash })
	if at < 0 {
		return nil
	}
	return all[at]
}

// itemOf judges the item that the function of an element is given.
func (o *oracle) itemOf(about *actors.TaskInfo, in actors.Inputs) {
	run, ok := o.seed.world.Model().RunSnapshot(about.Run)
	if !ok {
		return
	}
	element := elementOf(&run, about.Step)
	if element == nil {
		o.seed.world.Fail("I21", "%s/%s is executed and is no element", o.seed.nameOf(about.Run), about.Step)
		return
	}
	node := declared(&run, element.Step)
	list := o.seed.shapeOf(run.Graph).maps[node.Name].listOf(run.Task(node.Parents[0]).Output)
	if about.Item < 0 || about.Item >= len(list) || !bytes.Equal(list[about.Item], in.Item) || len(in.Parents) > 0 {
		o.seed.world.Fail("I21", "%s/%s has item %d: %s, of %d", o.seed.nameOf(about.Run), about.Step, about.Item, in.Item, len(list))
	}
}
