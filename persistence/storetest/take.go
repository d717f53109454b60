package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var takeRules = []rule{
	{"take/grants", "first tasks are granted to the pod that stores their runs", func(w *world) {
		g, p := w.met(Diamond(), tenantA, tenantB)
		batch := append(w.drafts(g, tenantA, 2), w.drafts(g, tenantB, 1)...)
		batch[0].Labels, batch[0].TraceContext = map[string]string{"color": "red"}, "trace"
		take := p.taking(3)
		out := w.take(take, batch...)
		require.Empty(w.t, out.Wake.Ready)
		require.Len(w.t, out.Grants, 3)
		require.Empty(w.t, w.snapshot().Queue)
		first := out.Grants[0]
		require.Equal(w.t, workflow.TaskID{Run: batch[0].Run, Step: 0}, first.Task)
		require.Equal(w.t, int64(2), first.Epoch)
		require.Equal(w.t, take.Claim, first.Claim)
		require.Equal(w.t, int32(1), first.Attempt)
		require.Equal(w.t, batch[0].Labels, first.Labels)
		require.Equal(w.t, "trace", first.TraceContext)
		require.Equal(w.t, string(batch[0].Input), string(first.Input))
		require.Equal(w.t, tenantB, out.Grants[2].Tenant)
		require.Equal(w.t, []string{"queued", "started"}, w.events(batch[0].Run)[first.Step])
		require.Empty(w.t, p.claim(10))
		w.checkInvariants()
		p.complete(out.Grants...)
		p.finish()
		for i := range batch {
			w.requireRun(batch[i].Run, lifecycle.Completed)
		}
	}},
	{"take/limit", "the first tasks that there is no room for queue up", func(w *world) {
		g, p := w.met(Single(), tenantA)
		batch := append(w.drafts(g, tenantA, 3), w.drafts(g, tenantB, 1)...)
		p.meet(g, tenantB)
		out := w.take(p.taking(2), batch...)
		require.Len(w.t, out.Grants, 2)
		require.Equal(w.t, batch[0].Run, out.Grants[0].Task.Run)
		require.Equal(w.t, batch[1].Run, out.Grants[1].Task.Run)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 2}}, out.Wake.Ready)
		w.checkInvariants()
		rest := p.claimExactly(10, 2)
		require.Equal(w.t, batch[2].Run, rest[0].Task.Run)
		require.Equal(w.t, batch[3].Run, rest[1].Task.Run)
		require.Empty(w.t, w.take(p.taking(0), w.drafts(g, tenantA, 1)...).Grants)
	}},
	{"take/nobody_waits", "no first task is granted while anybody waits in its queue", func(w *world) {
		g, p := w.met(Single(), tenantA, tenantB)
		for _, tenant := range []string{tenantA, tenantB} {
			w.trigger(w.drafts(g, tenant, 1)...)
			require.Empty(w.t, w.take(p.taking(10), w.drafts(g, tenantA, 1)...).Grants)
			p.finish()
			require.Len(w.t, w.take(p.taking(10), w.drafts(g, tenantA, 1)...).Grants, 1)
		}
	}},
	{"take/own_handlers_and_queues", "only first tasks that the pod registers and serves are granted", func(w *world) {
		single, elsewhere := Single(), Elsewhere()
		w.with(single, elsewhere)
		p := w.pod()
		p.meet(single, tenantA)
		take := p.taking(10)
		take.Handlers = w.handlersOf(elsewhere)
		require.Empty(w.t, w.take(take, w.draft(single)).Grants, "it has another handler")
		p.finish()
		take = p.taking(10)
		take.Queues = []string{"gpu"}
		require.Empty(w.t, w.take(take, w.draft(single)).Grants, "it is in another queue")
		require.Len(w.t, p.claim(10), 1)
		out := w.take(p.taking(10), w.draft(single), w.draft(elsewhere))
		require.Len(w.t, out.Grants, 2, "its first step is in the queue of its run")
	}},
	{"take/plain_only", "runs that take a decision are stored, and their first tasks queue up", func(w *world) {
		single, branch := Single(), Branch()
		w.with(single, branch)
		p := w.pod()
		require.Empty(w.t, w.take(p.taking(10), w.draft(single)).Grants, "the tenant is new")
		p.finish()
		keyed, early, conditioned := w.draft(single), w.draft(single), w.draft(branch)
		keyed.Key = "key"
		early.At = present
		conditioned.Edges = []persistence.EdgeResult{{Child: branch.Nodes[0].Name, Flags: lifecycle.FlagSkip}}
		for _, t := range []persistence.Trigger{keyed, early, conditioned} {
			require.Empty(w.t, w.take(p.taking(10), t).Grants)
			p.finish()
		}
		require.Empty(w.t, w.take(p.taking(10), w.draft(single), w.draft(w.with(Impatient(short)))).Grants, "one does not wait for ever")
	}},
	{"take/again", "the same batch again returns the same grants", func(w *world) {
		g, p := w.met(Single(), tenantA)
		take, batch := p.taking(5), w.drafts(g, tenantA, 2)
		first := w.take(take, batch...)
		require.Len(w.t, first.Grants, 2)
		again := w.take(take, batch...)
		require.Equal(w.t, first.Grants, again.Grants)
		require.Empty(w.t, again.Wake.Ready)
		p.complete(first.Grants[0])
		require.Equal(w.t, first.Grants[1:], w.take(take, batch...).Grants, "what is still held")
		require.Empty(w.t, w.take(p.taking(5), batch...).Grants, "another claim")
	}},
	{"take/used_claim", "a claim that has grants gets no more", func(w *world) {
		g, p := w.met(Single(), tenantA)
		take := p.taking(5)
		require.Len(w.t, w.take(take, w.draft(g)).Grants, 1)
		out := w.take(take, w.draft(g))
		require.Empty(w.t, out.Grants)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
	}},
	{"take/dead_pod", "a pod that may not have tasks stores runs all the same", func(w *world) {
		g := w.with(Single())
		p, other := w.pod(), w.podFor(never)
		p.meet(g, tenantA)
		w.advance(2 * leaseTTL)
		require.Empty(w.t, w.take(p.taking(5), w.draft(g)).Grants, "its lease has run out")
		w.expire()
		require.Empty(w.t, w.take(p.taking(5), w.draft(g)).Grants, "it is dead")
		require.Len(w.t, other.claim(10), 2)
	}},
	{"take/expires", "a first task that was granted is found when its pod dies", func(w *world) {
		g := w.with(Single())
		p, other := w.pod(), w.podFor(never)
		p.meet(g, tenantA)
		run := w.draft(g)
		lost := w.take(p.taking(5), run).Grants
		require.Len(w.t, lost, 1)
		w.advance(2 * leaseTTL)
		w.expire()
		late := p.batch()
		late.Pod, late.Transitions = other.id, []persistence.Transition{completion(lost[0])}
		require.Equal(w.t, lifecycle.Stale, other.send(late).Answers[0].Result)
		again := other.claimExactly(10, 1)
		require.Equal(w.t, int32(1), again[0].Lost)
		other.complete(again...)
		w.requireRun(run.Run, lifecycle.Completed)
	}},
	{"take/other_batches", "a batch that asks for no grants gets none", func(w *world) {
		g, p := w.met(Single(), tenantA)
		require.Empty(w.t, w.ask(w.draft(g)).Grants)
		require.Len(w.t, p.claim(10), 1)
	}},
	{"take/not_charged", "what was granted while no other tenant waited does not make its tenant wait later", func(w *world) {
		g, p := w.met(Single(), tenantA, tenantB)
		for range 20 {
			p.complete(w.take(p.taking(5), w.drafts(g, tenantA, 1)...).Grants...)
		}
		w.trigger(w.drafts(g, tenantB, 5)...)
		w.trigger(w.drafts(g, tenantA, 1)...)
		var tenants []string
		for range 3 {
			tenants = append(tenants, p.claim(1)[0].Tenant)
		}
		require.Contains(w.t, tenants, tenantA)
	}},
}

// take stores triggers, which are all new, and takes their first tasks.
func (w *world) take(take persistence.GrantRequest, triggers ...persistence.Trigger) persistence.Triggers {
	w.t.Helper()
	out := call(w.store.TriggerRuns(w.ctx, triggers, take)).must(w)
	for _, answer := range out.Answers {
		require.Equal(w.t, persistence.Triggered, answer.Result)
	}
	return out
}

// met joins a pod, and has each tenant trigger its first run.
func (w *world) met(g *workflow.Graph, tenants ...string) (*workflow.Graph, *worker) {
	w.t.Helper()
	g, p := w.withPod(g)
	p.meet(g, tenants...)
	return g, p
}

// meet lets tenants trigger for the first time, and ends their runs.
func (p *worker) meet(g *workflow.Graph, tenants ...string) {
	p.w.t.Helper()
	for _, tenant := range tenants {
		p.w.trigger(p.w.drafts(g, tenant, 1)...)
	}
	p.finish()
}
