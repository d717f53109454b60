package storetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// slots of the pods in cases about fairness.
const slots = 10

var fairnessRules = []rule{
	{"fairness/backlog", "one run behind 10,000 of another tenant starts after at most slots + 1 of them", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantB, 10_000)...)
		w.start(g)
		require.LessOrEqual(w.t, w.pod().before(), slots+1)
	}},
	{"fairness/backlog_at_work", "a tenant that comes while a backlog is being worked off starts as soon", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantB, 5_000)...)
		p := w.pod()
		for range 20 {
			p.complete(p.claim(100)...)
		}
		held := p.claim(slots)
		w.start(g)
		p.complete(held...)
		require.LessOrEqual(w.t, p.before(), slots+1)
		w.start(g)
		require.LessOrEqual(w.t, p.before(), slots+1, "again")
	}},
	{"fairness/other_queue", "a tenant's backlog in one queue does not delay it or others in another", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantB, 1_000)...)
		list := append(w.drafts(g, tenantB, 1), w.drafts(g, tenantA, 1)...)
		for i := range list {
			list[i].Queue = "other"
		}
		w.trigger(list...)
		p := w.pod()
		require.ElementsMatch(w.t, []workflow.RunID{list[0].Run, list[1].Run}, runsOf(p.ask(p.requestFrom("other", 2)).Grants))
	}},
	{"fairness/idle_tenant_returns", "a tenant that was idle gets no credit: it takes turns like any other", func(w *world) {
		g := w.with(Single())
		w.start(g)
		w.trigger(w.drafts(g, tenantB, 500)...)
		p := w.pod()
		for range 3 {
			p.complete(p.claim(100)...)
		}
		w.trigger(w.drafts(g, tenantA, 300)...)
		order := p.claim(20)
		count := 0
		for _, grant := range order {
			if grant.Tenant == tenantA {
				count++
			}
		}
		require.InDelta(w.t, 10, count, 1)
	}},
	{"fairness/steady", "many runs of several steps finish steadily, not all at the end", func(w *world) {
		const runs = 1_000
		_, p := w.backlog(runs, Chain(4))
		// The two lanes take turns, so half of what is dispatched are new runs until
		// all have begun; breadth-first, none would finish in the first 3,000.
		least := map[int]int{2_000: 100, 3_000: 250, 3_600: 500}
		finished, dispatched := 0, 0
		for grants := p.claim(50); len(grants) > 0; grants = p.claim(50) {
			dispatched += len(grants)
			finished += len(p.complete(grants...).Wake.Ended)
			require.GreaterOrEqual(w.t, finished, least[dispatched], "runs finished after %d dispatches", dispatched)
		}
		require.Equal(w.t, 4*runs, dispatched)
		require.Equal(w.t, runs, finished)
	}},
	{"fairness/continuing_and_new", "a tenant's new runs do not starve the runs it has under way", func(w *world) {
		g := w.with(Chain(10))
		run := w.start(g)
		p := w.pod()
		held := p.claim(1)
		w.trigger(w.drafts(g, tenantA, 2_000)...)
		for i := range 9 {
			p.complete(held...)
			own := func(g persistence.Grant) bool { return g.Task.Run == run }
			order := p.claim(4)
			at := slices.IndexFunc(order, own)
			require.GreaterOrEqual(w.t, at, 0, "step %d is among the next", i+1)
			held = order[at : at+1]
		}
		p.complete(held...)
		w.requireRun(run, lifecycle.Completed)
	}},
}

var manyTenantsRules = []rule{
	{"fairness/thousand_tenants", "with 1,000 tenants at work a new one waits for at most two tasks of each", func(w *world) {
		const tenants = 1_000
		g := w.with(Single())
		var list []persistence.Trigger
		for range 3 {
			for i := range tenants {
				list = append(list, w.drafts(g, "tenant-"+itoa(i), 1)...)
			}
		}
		w.trigger(list...)
		p := w.pod()
		p.complete(p.claim(500)...)
		held := p.claim(slots)
		w.start(g)
		p.complete(held...)
		count := map[string]int{}
		for {
			for _, grant := range p.claim(500) {
				if grant.Tenant == tenantA {
					return
				}
				count[grant.Tenant]++
				require.LessOrEqual(w.t, count[grant.Tenant], 2)
			}
		}
	}},
	{"fairness/ten_tenants", "between two of its dispatches a tenant waits for at most two of each other one (I9)", func(w *world) {
		const tenants = 10
		chain, single := Chain(3), Single()
		w.with(chain, single)
		for i := range tenants {
			// Tenants of very different load, some in one batch, some later.
			w.trigger(w.drafts(chain, "tenant-"+itoa(i), 1+7*i)...)
			w.trigger(w.drafts(single, "tenant-"+itoa(i), 100-10*i)...)
		}
		p := w.pod()
		requireTurns(w, p)
		p.finish()
		for _, r := range w.snapshot().Runs {
			require.Equal(w.t, lifecycle.Completed, r.Core.State)
		}
	}},
	{"fairness/statistics_of_empty_tables", "the order does not depend on statistics", func(w *world) {
		if w.h.Analyze == nil {
			w.t.Skip("this store has no statistics")
		}
		require.NoError(w.t, w.h.Analyze(w.ctx))
		g := w.with(Diamond())
		w.trigger(w.drafts(g, tenantB, 500)...)
		w.start(g)
		require.LessOrEqual(w.t, w.pod().before(), slots+1)
	}},
}

var tenantLimitRules = []rule{
	{"tenant_limit/holds", "no more tasks of a tenant run than its limit", func(w *world) {
		_, p := w.backlog(10, Single())
		limited := func() []persistence.Grant {
			request := p.request(10)
			request.TenantLimit = 3
			return p.ask(request).Grants
		}
		held := limited()
		require.Len(w.t, held, 3)
		require.Empty(w.t, limited())
		out := p.batch(completion(held[0]), retry(held[1], 0))
		out.TenantLimit = 3
		p.send(out)
		require.Len(w.t, limited(), 2)
		require.Empty(w.t, limited())
	}},
	{"tenant_limit/stands_in_nobodys_way", "a tenant at its limit does not delay others, however long its backlog", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantB, 500)...)
		p := w.pod()
		limited := func() []persistence.Grant {
			request := p.request(4)
			request.TenantLimit = 4
			return p.ask(request).Grants
		}
		require.Len(w.t, limited(), 4)
		w.trigger(w.drafts(g, tenantA, 6)...)
		got := limited()
		require.Len(w.t, got, 4)
		for _, grant := range got {
			require.Equal(w.t, tenantA, grant.Tenant)
		}
		require.Empty(w.t, limited())
		p.complete(got[:3]...)
		require.Len(w.t, limited(), 2)
	}},
}

// before has a pod claim whatever fits its slots and complete the oldest, until
// tenantA is granted a task. It returns how many tasks of others were granted
// before that.
func (p *worker) before() int {
	p.w.t.Helper()
	count, free := 0, slots
	var held []persistence.Grant
	for {
		grants := p.claim(free)
		require.NotEmpty(p.w.t, slices.Concat(grants, held), "grants of %s", tenantA)
		for _, g := range grants {
			if g.Tenant == tenantA {
				return count
			}
			count++
		}
		held = append(held, grants...)
		free = (len(held) + 1) / 2
		p.complete(held[:free]...)
		held = held[free:]
	}
}

// requireTurns dispatches one task after the other and checks I9: while a
// tenant has ready work, no other one is dispatched more than twice before it.
func requireTurns(w *world, p *worker) {
	w.t.Helper()
	ready := map[string]int{}
	for _, row := range w.snapshot().Queue {
		ready[w.run(row.Task.Run).Tenant]++
	}
	since := map[string]map[string]int{} // per waiting tenant: dispatches of others
	for range 300 {
		grants := p.claim(1)
		if len(grants) == 0 {
			return
		}
		served := grants[0].Tenant
		ready[served]--
		delete(since, served)
		for tenant, count := range ready {
			if tenant == served || count == 0 {
				continue
			}
			if since[tenant] == nil {
				since[tenant] = map[string]int{}
			}
			since[tenant][served]++
			require.LessOrEqual(w.t, since[tenant][served], 2, "dispatches of %s while %s waits", served, tenant)
		}
		for _, r := range p.complete(grants...).Wake.Ready {
			if ready[served] == 0 {
				delete(since, served)
			}
			ready[served] += r.Count
		}
	}
}
