package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// inlineOne completes tasks and requires that one child is granted.
func (p *worker) inlineOne(held []persistence.Grant) []persistence.Grant {
	p.w.t.Helper()
	grants := p.send(p.inline(1, held...)).Grants
	require.Len(p.w.t, grants, 1)
	return grants
}

var inlineRules = []rule{
	{"inline/grants", "a child that becomes ready is granted to the pod that completed its parent", func(w *world) {
		run, p := w.startWithPod(Chain(3))
		record := p.inline(10, p.claimStep("s0"))
		out := p.send(record)
		require.Len(w.t, out.Grants, 1)
		require.Empty(w.t, out.Wake.Ready)
		g := out.Grants[0]
		require.Equal(w.t, "s1", g.Step)
		require.Equal(w.t, int64(2), g.Epoch)
		require.Equal(w.t, record.Claim, g.Claim)
		require.Equal(w.t, `"s0"`, string(g.Parents[0].Output))
		require.Equal(w.t, []string{"queued", "started"}, w.events(run)["s1"])
		require.Empty(w.t, w.snapshot().Queue)
		w.checkInvariants()
		out = p.send(p.inline(10, g))
		require.Len(w.t, out.Grants, 1)
		p.complete(out.Grants...)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"inline/limit", "at most as many children are granted as tasks were completed, and as the pod asks for", func(w *world) {
		_, p := w.backlog(3, Fan(5))
		roots := p.claim(3)
		out := p.send(p.inline(10, roots[0]))
		require.Len(w.t, out.Grants, 1, "one task was completed")
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 4}}, out.Wake.Ready)
		out = p.send(p.inline(1, roots[1:]...))
		require.Len(w.t, out.Grants, 1, "the pod asked for one")
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 9}}, out.Wake.Ready)
		require.Empty(w.t, p.send(p.inline(0, p.claim(1)...)).Grants)
	}},
	{"inline/spare", "children beyond the completed tasks are granted in slots to spare", func(w *world) {
		_, p := w.backlog(2, Fan(5))
		roots := p.claim(2)
		record := p.inline(4, roots[0])
		record.Spare = 2
		out := p.send(record)
		require.Len(w.t, out.Grants, 3, "one was completed, and there are two slots more")
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 2}}, out.Wake.Ready)
		p.finish()
		record = p.inline(2, roots[1])
		record.Spare = 7
		require.Len(w.t, p.send(record).Grants, 2, "the pod asked for two")
	}},
	{"inline/not_before_others", "no child is granted while another tenant waits in its queue", func(w *world) {
		g, p := w.backlog(1, Chain(4))
		held := p.claim(1)
		w.trigger(w.drafts(g, tenantB, 1)...)
		require.Empty(w.t, p.send(p.inline(1, held...)).Grants)
		first := p.claimExactly(1, 1)
		second := p.claimExactly(1, 1)
		require.ElementsMatch(w.t, []string{tenantA, tenantB}, []string{first[0].Tenant, second[0].Tenant})
	}},
	// The newcomer stands before what A has waiting.
	{"inline/newcomer", "no child is granted once another tenant came, however often none waited", func(w *world) {
		chain, single := w.with(Chain(30)), w.with(Single())
		p := w.pod()
		w.trigger(w.drafts(single, tenantB, 1)...)
		p.complete(p.claim(1)...)
		w.start(chain)
		held := p.claim(1)
		w.trigger(w.drafts(single, tenantA, 10)...)
		for range 5 {
			held = p.inlineOne(held)
		}
		w.trigger(w.drafts(single, tenantB, 1)...)
		require.Empty(w.t, p.send(p.inline(1, held...)).Grants)
		next := p.claimExactly(1, 1)
		require.Equal(w.t, tenantB, next[0].Tenant)
	}},
	{"inline/own_handlers_and_queues", "only children that the pod registers and serves are granted", func(w *world) {
		chain, elsewhere := Chain(2), Elsewhere()
		w.with(chain, elsewhere)
		w.trigger(w.draft(chain), w.draft(elsewhere))
		p := w.pod()
		grants := p.claim(2)
		record := p.inline(10, grants...)
		record.Handlers = w.handlersOf(elsewhere)
		out := p.send(record)
		require.Empty(w.t, out.Grants, "one has another handler, one another queue")
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}, {Queue: "gpu", Count: 1}}, out.Wake.Ready)
	}},
	{"inline/again", "the same record again returns the same grants", func(w *world) {
		_, p := w.startWithPod(Chain(3))
		record := p.inline(10, p.claimStep("s0"))
		first := p.send(record)
		again := p.send(record)
		require.Equal(w.t, lifecycle.AlreadyYours, again.Answers[0].Result)
		require.Equal(w.t, first.Grants, again.Grants)
		p.complete(first.Grants...)
		require.Empty(w.t, p.send(record).Grants, "no longer held")
	}},
	{"inline/tenant_limit", "inline grants keep the limit of the tenant", func(w *world) {
		_, p := w.backlog(2, Fan(3))
		record := p.inline(10, p.claim(2)...)
		record.TenantLimit = 1
		require.Len(w.t, p.send(record).Grants, 1)
	}},
	{"inline/moves_the_frontier", "a tenant that lives on inline grants is as near to its turn as one that comes", func(w *world) {
		g, p := w.backlog(1, Chain(30))
		held := p.claim(1)
		for range 20 {
			held = p.inlineOne(held)
		}
		// B comes with a backlog. A's next step waits for two of B at most.
		w.trigger(w.drafts(g, tenantB, 50)...)
		p.complete(held...)
		for i := range 3 {
			next := p.claimExactly(1, 1)
			if next[0].Tenant == tenantA {
				return
			}
			require.Less(w.t, i, 2, "dispatches of B before A's next")
		}
	}},
	{"inline/before_its_own", "children granted before rows of their own tenant do not put who comes behind these", func(w *world) {
		chain, fan, single := w.with(Chain(3)), w.with(Fan(20)), w.with(Single())
		p := w.pod()
		w.start(fan)
		root := p.claim(1)
		w.start(chain)
		first := p.claim(1)
		p.complete(root...) // A's leaves wait
		require.Len(w.t, p.send(p.inline(1, first...)).Grants, 1)
		// B comes. It waits for two of A at most, not for all the leaves.
		w.trigger(w.drafts(single, tenantB, 1)...)
		for i := range 3 {
			next := p.claimExactly(1, 1)
			if next[0].Tenant == tenantB {
				return
			}
			require.Less(w.t, i, 2, "dispatches of A before B's first")
		}
	}},
	{"inline/not_charged", "what was granted while no other tenant waited does not make its tenant wait later", func(w *world) {
		chain, fan := w.with(Chain(30)), w.with(Fan(40))
		w.start(chain)
		p := w.pod()
		held := p.claim(1)
		w.start(chain) // A has something queued all the time
		for range 20 {
			held = p.inlineOne(held)
		}
		// B comes with a backlog, A with new work: they take turns.
		w.trigger(w.drafts(chain, tenantB, 50)...)
		w.start(fan)
		of := map[string]int{}
		for range 12 {
			next := p.claimExactly(1, 1)
			of[next[0].Tenant]++
			p.complete(next...)
		}
		require.GreaterOrEqual(w.t, of[tenantA], 4, "of 12 dispatches: %v", of)
		require.GreaterOrEqual(w.t, of[tenantB], 4, "of 12 dispatches: %v", of)
	}},
	{"inline/after_a_branch", "a child of a step with conditions is granted, and so are those after it", func(w *world) {
		run, p := w.startWithPod(Branch())
		record := p.inline(10)
		record.Transitions = append(record.Transitions, choose(p.claimStep("choose"), "no"))
		out := p.send(record)
		require.Len(w.t, out.Grants, 1)
		require.Empty(w.t, out.Wake.Ready)
		require.Equal(w.t, "yes", out.Grants[0].Step)
		require.Equal(w.t, `"choose"`, string(out.Grants[0].Parents[0].Output))
		require.Equal(w.t, []string{"queued", "started"}, w.events(run)["yes"])
		require.Equal(w.t, out.Grants, p.send(record).Grants, "the same record again")
		out = p.send(p.inline(10, out.Grants...))
		require.Len(w.t, out.Grants, 1)
		require.Equal(w.t, "more", out.Grants[0].Step)
		out = p.send(p.inline(10, out.Grants...))
		require.Len(w.t, out.Grants, 1)
		merge := out.Grants[0]
		require.Equal(w.t, "merge", merge.Step)
		require.Len(w.t, merge.Parents, 2)
		require.Equal(w.t, `"more"`, string(merge.Parents[0].Output))
		require.Equal(w.t, persistence.Outcome{Index: 3, Step: "no", State: lifecycle.Skipped}, merge.Parents[1])
		w.checkInvariants()
		p.complete(merge)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"inline/after_a_handled_failure", "a failure that was handled is seen by a child that is granted", func(w *world) {
		g := w.with(Graph(workflow.Definition{Name: "handledfar", Output: 2, Steps: []workflow.Step{
			{Name: "try"}, {Name: "side"}, {Name: "report", Parents: append(settled(0), plain(1)...)},
		}}))
		run := w.start(g)
		p := w.pod()
		grants := p.claim(2)
		try, side := grants[0], grants[1]
		if try.Step != "try" {
			try, side = side, try
		}
		p.report(failure(try))
		out := p.send(p.inline(10, side))
		require.Len(w.t, out.Grants, 1)
		require.Equal(w.t, lifecycle.Failed, out.Grants[0].Parents[0].State)
		require.Equal(w.t, "try broke", out.Grants[0].Parents[0].Error)
		p.complete(out.Grants...)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"inline/timers", "a child that sleeps is not granted; one with a deadline in the queue is, and has begun in time", func(w *world) {
		hurried := Graph(workflow.Definition{Name: "hurried", Output: 1, Steps: []workflow.Step{
			{Name: "s0"}, {Name: "s1", Parents: plain(0), Options: workflow.Options{ScheduleToStart: time.Minute}},
		}})
		for grants, g := range []*workflow.Graph{Nap(time.Minute), hurried} {
			run, p := w.startWithPod(g)
			out := p.send(p.inline(10, p.claim(1)...))
			require.Len(w.t, out.Grants, grants, g.Name)
			require.Len(w.t, w.snapshot().Timers, 1, g.Name)
			w.advance(50 * time.Second)
			p.renew(out.Grants...)
			w.advance(50 * time.Second)
			w.fire()
			p.complete(out.Grants...)
			p = w.pod()
			p.finish()
			w.requireRun(run, lifecycle.Completed)
		}
		w.checkInvariants()
	}},
	{"inline/machines", "the end of an activity grants its machine, an activation what it starts; what is handed back is not granted", func(w *world) {
		g := Order()
		run, p := w.startWithPod(g)
		record := p.inline(10)
		record.Spare = 1
		record.Transitions = append(record.Transitions, activation(p.claimStep("machine"), g, `"s0"`, starts("charge", "1"), starts("charge", "2"), starts("ship", "3")))
		out := p.send(record)
		require.Len(w.t, out.Grants, 2, "the third waits in another queue")
		require.Equal(w.t, `"2"`, string(out.Grants[1].Item))
		require.Equal(w.t, []persistence.Ready{{Queue: "gpu", Count: 1}}, out.Wake.Ready)
		require.Equal(w.t, out.Grants, p.send(record).Grants, "the same record again")
		both := out.Grants
		out = p.send(p.inline(10, both[0]))
		require.Len(w.t, out.Grants, 1)
		m := out.Grants[0]
		require.Equal(w.t, []string{"2 charge#1"}, heard(m))
		p.complete(both[1])
		record = p.inline(10)
		record.Transitions = append(record.Transitions, activation(m, g, `"s1"`))
		out = p.send(record)
		require.Len(w.t, out.Grants, 1, "an entry came meanwhile")
		require.Equal(w.t, []string{"2 charge#2"}, heard(out.Grants[0]))
		again := record
		again.Limit = 0
		require.Equal(w.t, out.Grants, p.send(again).Grants, "the same record again, whose answer was lost")
		record = p.inline(10)
		record.Spare = 5
		record.Transitions = append(record.Transitions, persistence.Transition{Task: out.Grants[0].Task, Epoch: out.Grants[0].Epoch, Report: lifecycle.Released})
		require.Empty(w.t, p.send(record).Grants)
		w.requireTasks(run, states{"machine": "queued"})
		require.Equal(w.t, []string{"queued", "activated", "activated", "released"}, w.events(run)["machine"])
	}},
	{"inline/machines_in_turn", "a machine that never rests lets what its tenant has waiting begin", func(w *world) {
		g, single := Order(), w.with(Single())
		_, p := w.startWithPod(g)
		held := p.claimStep("machine")
		other := w.start(single)
		for range 5 {
			record := p.inline(1)
			record.Transitions = append(record.Transitions, activation(held, g, `"s"`, starts("charge", "1")))
			out := p.send(record)
			if out = p.send(p.inline(1, out.Grants...)); len(out.Grants) == 0 {
				require.Contains(w.t, []workflow.RunID{p.claimExactly(1, 1)[0].Task.Run, p.claimExactly(1, 1)[0].Task.Run}, other)
				return
			}
			held = out.Grants[0]
		}
		require.Fail(w.t, "the machine is granted past what waits")
	}},
	{"inline/elements_in_turn", "a wide map lets what its tenant has waiting continue", func(w *world) {
		g, chain := Mapped(), w.with(Chain(3))
		w.with(g)
		p := w.pod()
		w.start(chain)
		own := p.claimStep("s0")
		w.start(g)
		w.spread(p, 100, 1, 0)
		element := p.claimExactly(1, 1)
		p.complete(own) // s1 waits
		for range 5 {
			out := p.send(p.inline(1, element...))
			if len(out.Grants) == 0 {
				require.Contains(w.t, stepsOf(p.claimExactly(2, 2)), "s1")
				return
			}
			element = out.Grants
		}
		require.Fail(w.t, "elements are granted past what waits")
	}},
	{"inline/not_canceling", "a run that is canceled has no child granted", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		grants := p.claimExactly(2, 2)
		w.cancel(run)
		require.Empty(w.t, p.send(p.inline(10, grants...)).Grants)
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"inline/expires", "a task granted inline is found when its pod dies", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		require.Len(w.t, p.send(p.inline(1, p.claimStep("s0"))).Grants, 1)
		w.advance(leaseTTL + time.Second)
		require.Equal(w.t, 1, w.expire().Tasks)
		w.requireTasks(run, states{"s1": "queued"})
	}},
}

// inline is a record that may be granted children at once.
func (p *worker) inline(limit int, grants ...persistence.Grant) persistence.Record {
	record := p.batch()
	record.GrantRequest = p.taking(limit)
	for _, g := range grants {
		record.Transitions = append(record.Transitions, completion(g))
	}
	return record
}
