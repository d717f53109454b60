package storetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var mapFairnessRules = []rule{
	{"maps/fair", "a wide map delays other tenants, and what its tenant has under way, by a turn for each of their tasks", func(w *world) {
		const wide, few = 10_000, 5
		g, chain := Mapped(), Chain(3)
		w.with(g, chain)
		p := w.pod()
		w.start(chain)
		own := p.claimStep("s0")
		w.start(g)
		w.spread(p, wide, lifecycle.MapWindowMax, 0)
		p.complete(own)
		require.Contains(w.t, stepsOf(p.claimExactly(2, 2)), "s1", "what continues and elements take turns")

		w.trigger(w.drafts(chain, tenantB, few)...)
		grants := p.claimExactly(2*few, 2*few)
		other := slices.DeleteFunc(grants, func(g persistence.Grant) bool { return g.Tenant != tenantB })
		require.Len(w.t, other, few, "tenants take turns")
		p.complete(other...)
		next := p.claimExactly(2*few, 2*few)
		require.Len(w.t, slices.DeleteFunc(next, func(g persistence.Grant) bool { return g.Tenant != tenantB }), few)
	}},
	{"maps/window", "however elements end, no more are open than may be, and each item gets one", func(w *world) {
		const n, window = 300, 7
		run, p := w.mapping(Mapped(), n, window, n)
		seen := map[string]int{}
		for turn := 0; ; turn++ {
			grants := p.claim(3)
			if len(grants) == 1 && grants[0].Declared == "" {
				p.complete(grants...)
				break
			}
			require.NotEmpty(w.t, grants)
			var reports []persistence.Transition
			for i, g := range grants {
				seen[g.Step]++
				switch (turn + i) % 4 {
				case 0:
					reports = append(reports, failure(g))
				case 1:
					reports = append(reports, persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Released})
					seen[g.Step]--
				default:
					reports = append(reports, completion(g))
				}
			}
			p.report(reports...)
			open := call(w.store.Elements(w.ctx, "", workflow.TaskID{Run: run, Step: 1}, persistence.ElementQuery{Limit: 1})).must(w).Map
			require.Equal(w.t, min(int32(window), open.Left+open.Open), open.Open)
		}
		require.Len(w.t, seen, n)
		for step, times := range seen {
			require.Equal(w.t, 1, times, step)
		}
		p.finish()
		w.requireRun(run, lifecycle.Completed)
	}},
}

// stepsOf returns the steps of grants, in order.
func stepsOf(grants []persistence.Grant) []string {
	var steps []string
	for _, g := range grants {
		steps = append(steps, g.Step)
	}
	return steps
}
