package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var registryRules = []rule{
	{"registry/numbers_are_stable", "a handler keeps its number when any pod registers it again", func(w *world) {
		graphs := []*workflow.Graph{Diamond(), Mixed(workflow.FailFast)}
		first := call(w.store.RegisterDefinitions(w.ctx, graphs, nil)).must(w)
		require.Len(w.t, first, 2)
		require.Len(w.t, first[0], 4)
		require.Len(w.t, first[1], 8, "seven steps and the failure handler")
		seen := map[int32]bool{}
		for i, g := range graphs {
			for j, number := range first[i] {
				if j < len(g.Nodes) && g.Nodes[j].Kind != workflow.Func {
					continue
				}
				require.Positive(w.t, number)
				require.False(w.t, seen[number], "number %d given twice", number)
				seen[number] = true
			}
		}
		again := call(w.store.RegisterDefinitions(w.ctx, []*workflow.Graph{graphs[1], graphs[0]}, nil)).must(w)
		require.Equal(w.t, [][]int32{first[1], first[0]}, again)
	}},
	{"registry/equal_steps_share_a_number", "a step with the same fingerprint is the same handler in every version", func(w *world) {
		version := func(extra ...workflow.Step) *workflow.Graph {
			return Graph(workflow.Definition{
				Name: "versioned", Steps: append([]workflow.Step{{Name: "a"}, {Name: "b", Parents: plain(0)}}, extra...),
			})
		}
		one, two := version(), version(workflow.Step{Name: "c", Parents: plain(1)})
		require.NotEqual(w.t, one.Hash, two.Hash)
		numbers := call(w.store.RegisterDefinitions(w.ctx, []*workflow.Graph{one, two}, nil)).must(w)
		require.Equal(w.t, numbers[0], numbers[1][:2])
		require.NotContains(w.t, numbers[0], numbers[1][2])
	}},
	{"registry/definition", "a stored graph comes back as it was", func(w *world) {
		for _, g := range Graphs() {
			w.with(g)
			require.EqualExportedValues(w.t, *g, *call(w.store.Definition(w.ctx, g.Hash)).must(w))
		}
	}},
	{"registry/unknown_definition", "an unknown hash is no graph and no error", func(w *world) {
		require.Nil(w.t, call(w.store.Definition(w.ctx, Single().Hash)).must(w))
	}},
	{"registry/queues", "a queue is known once it was registered", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Queue = "late"
		require.Equal(w.t, persistence.UnknownQueue, w.ask(d).Answers[0].Result)
		call(w.store.RegisterDefinitions(w.ctx, nil, []string{"late"})).must(w)
		w.trigger(d)
	}},
}
