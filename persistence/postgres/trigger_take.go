package postgres

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// taking returns the arguments that grant first tasks to a pod at once. No queue
// is looked at if it takes none.
func (f *fastTrigger) taking(take persistence.GrantRequest, counters []*fastCounter, queues []int16) pgsql.Named {
	look, count := []int16{}, 0
	if f.serves(take) {
		count = lifecycle.Take(len(f.roots), take.Limit, false)
	}
	if count > 0 {
		look = slices.Compact(slices.Clone(queues)) // they are sorted
	}
	places := make([]int64, len(counters))
	for i := range f.roots[:count] {
		places[f.roots[i].counter.index-1]++
	}
	after, until := f.s.emptyBelow.Known(look)
	return pgsql.Named{
		"pod": take.Pod, "claim": [16]byte(take.Claim), "take": count, "taken_places": places,
		"take_queues": look, "take_after": after, "take_until": until,
	}
}

// serves reports whether a pod registers all first tasks and serves their queues. While
// locks are in the way they wait for a claim, which asks whether their ends could be
// recorded.
func (f *fastTrigger) serves(take persistence.GrantRequest) bool {
	if take.Limit <= 0 || f.s.quarantine.Skipping() {
		return false
	}
	served := make(map[string]bool, len(take.Queues))
	for _, name := range take.Queues {
		served[registry.QueueName(name)] = true
	}
	handlers := make(map[int32]bool, len(take.Handlers))
	for _, number := range take.Handlers {
		handlers[number] = true
	}
	return !slices.ContainsFunc(f.roots, func(e fastRoot) bool { return !handlers[e.handler] || !served[e.queue] })
}

// grants describes first tasks that were granted. All that they need was in the
// batch.
func (f *fastTrigger) grants(roots []fastRoot, claim persistence.ClaimID, now time.Time) []persistence.Grant {
	grants := make([]persistence.Grant, len(roots))
	for i := range roots {
		e := &roots[i]
		t := e.trigger
		d := f.known.Definitions[t.Definition]
		g := &grants[i]
		*g = persistence.Grant{
			Task: workflow.TaskID{Run: t.Run, Step: e.step}, Epoch: grantedFirst, Claim: claim, Handler: e.handler, Attempt: 1,
			Workflow: d.Graph.Name, Step: d.Node(e.step).Name, Tenant: t.Tenant, Labels: t.Labels, TraceContext: t.TraceContext,
			Input: t.Input, InputSize: len(t.Input), BegunAt: now, QueuedAt: now, StartedAt: now,
		}
		g.Carry()
		f.s.recent.Granted(g, d)
	}
	return grants
}

// grantedFirst is the epoch of a task that was never granted before.
const grantedFirst = 2
