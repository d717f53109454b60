package storetest

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var claimRules = []rule{
	{"claim/nothing_ready", "a claim of an empty queue returns nothing and says that nothing is left", func(w *world) {
		w.with(Single())
		p := w.pod()
		out := p.ask(p.request(10))
		require.Empty(w.t, out.Grants)
		require.Zero(w.t, out.Scanned)
		require.Zero(w.t, out.Discarded)
		require.Zero(w.t, out.Lowest)
		require.False(w.t, out.Now.IsZero())
	}},
	{"claim/unknown_queue", "a claim of a queue that no pod registered returns nothing", func(w *world) {
		_, p := w.startWithPod(Single())
		require.Empty(w.t, p.ask(p.requestFrom("nowhere", 10)).Grants)
	}},
	{"claim/order_and_limit", "tasks of a tenant are granted in the order in which they became ready, at most limit", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 5)
		w.trigger(list[:2]...)
		w.trigger(list[2:]...)
		p := w.pod()
		want := make([]workflow.RunID, len(list))
		for i, d := range list {
			want[i] = d.Run
		}
		first := p.ask(p.request(3))
		require.Equal(w.t, want[:3], runsOf(first.Grants))
		require.Equal(w.t, 3, first.Scanned)
		require.Positive(w.t, first.Lowest)
		second := p.ask(p.request(3))
		require.Equal(w.t, want[3:], runsOf(second.Grants))
		require.Equal(w.t, 2, second.Scanned, "fewer than the limit: nothing is left")
		require.Greater(w.t, second.Lowest, first.Lowest)
	}},
	{"claim/once", "a task is granted once", func(w *world) {
		run := w.start(w.with(Single()))
		p, q := w.pod(), w.pod()
		require.Equal(w.t, int64(2), p.claimStep("a").Epoch)
		require.Empty(w.t, p.claim(10))
		require.Empty(w.t, q.claim(10))
		w.requireTasks(run, states{"a": "running"})
		require.Equal(w.t, []string{"queued", "started"}, w.events(run)["a"])
		require.Equal(w.t, p.id, w.tasks(run)["a"].Pod)
	}},
	{"claim/own_handlers", "a pod gets only tasks whose handler it registers, and others do not stand in its way", func(w *world) {
		single, diamond := Single(), Diamond()
		w.with(single, diamond)
		w.trigger(w.drafts(single, tenantA, 20)...)
		run := w.start(diamond)
		p := w.pod(diamond)
		out := p.ask(p.request(5))
		require.Equal(w.t, []workflow.RunID{run}, runsOf(out.Grants))
		require.Less(w.t, out.Scanned, 5, "nothing more for this pod")
		require.Len(w.t, w.pod(single).claim(100), 20)
	}},
	{"claim/own_queue", "a claim takes from its queue only", func(w *world) {
		g := w.with(Single())
		d := w.draft(g)
		d.Queue = "other"
		w.trigger(d)
		run := w.start(g)
		p := w.pod()
		require.Equal(w.t, []workflow.RunID{run}, runsOf(p.claim(10)))
		require.Equal(w.t, []workflow.RunID{d.Run}, runsOf(p.ask(p.requestFrom("other", 10)).Grants))
	}},
	{"claim/after", "rows below the hint are not looked at", func(w *world) {
		g, p := w.backlog(3, Single())
		first := p.ask(p.request(1))
		request := p.request(10)
		request.After = first.Lowest + 1
		require.Len(w.t, p.ask(request).Grants, 2)
		w.trigger(w.draft(g))
		request = p.request(10)
		request.After = 1 << 60
		out := p.ask(request)
		require.Empty(w.t, out.Grants)
		require.Zero(w.t, out.Scanned)
		require.Len(w.t, p.claim(10), 1)
	}},
	{"claim/discards", "a claim removes and counts rows whose task is no longer queued", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 4)
		w.trigger(list...)
		w.cancel(list[0].Run)
		w.cancel(list[2].Run)
		p := w.pod()
		out := p.ask(p.request(10))
		require.Equal(w.t, []workflow.RunID{list[1].Run, list[3].Run}, runsOf(out.Grants))
		require.Equal(w.t, 2, out.Discarded)
		require.Equal(w.t, 4, out.Scanned)
		require.Empty(w.t, w.snapshot().Queue)
	}},
	{"claim/dead_pod", "a pod that left, expired or never was is refused", func(w *world) {
		w.start(w.with(Single()))
		left, late, gone := w.pod(), w.pod(), &worker{w: w, id: 1 << 40, handlers: w.handlersOf()}
		call(w.store.LeavePod(w.ctx, left.id)).must(w)
		w.advance(leaseTTL)
		for _, p := range []*worker{left, late, gone} {
			call(w.store.ClaimTasks(w.ctx, p.request(1))).fails(w, persistence.ErrPodDead)
		}
		late.renew()
		require.Len(w.t, late.claim(1), 1, "late, but not declared dead")
	}},
}

var grantRules = []rule{
	{"grants/content", "a grant carries all that the attempt needs", func(w *world) {
		g := w.with(Single())
		d := w.draft(g)
		d.Labels = map[string]string{"region": "eu", "empty": ""}
		d.TraceContext = "00-trace"
		w.trigger(d)
		p := w.pod()
		request := p.request(1)
		out := p.ask(request)
		require.Len(w.t, out.Grants, 1)
		got := out.Grants[0]
		require.WithinDuration(w.t, out.Now, got.StartedAt, time.Minute)
		require.False(w.t, got.QueuedAt.IsZero())
		require.False(w.t, got.BegunAt.IsZero())
		got.StartedAt, got.QueuedAt, got.BegunAt = time.Time{}, time.Time{}, time.Time{}
		require.Equal(w.t, persistence.Grant{
			Task: workflow.TaskID{Run: d.Run}, Epoch: 2, Claim: request.Claim, Handler: w.numbers[g][0],
			Attempt: 1, Workflow: "single", Step: "a", Tenant: tenantA, Labels: d.Labels,
			TraceContext: "00-trace", Input: []byte(`"input"`), InputSize: 7,
		}, got)
	}},
	{"grants/begun", "a grant tells when the run began: with its trigger, at its At, or when it was taken from its transaction", func(w *world) {
		g := w.with(Single())
		now, later, submitted := w.draft(g), w.draft(g), w.draft(g)
		w.trigger(now)
		later.At = w.run(now.Run).CreatedAt.Add(time.Hour)
		w.trigger(later)
		w.submit(submitted)
		w.advance(time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		require.Equal(w.t, 1, w.drain(10).Count)
		grants := w.pod().claim(10)
		require.Len(w.t, grants, 3)
		for _, grant := range grants {
			require.Equal(w.t, w.run(grant.Task.Run).StartedAt.UTC(), grant.BegunAt.UTC())
			require.Equal(w.t, grant.QueuedAt, grant.BegunAt)
		}
	}},
	{"grants/parents", "a grant lists the parents' outcomes in the order of the parameters", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		p.complete(p.claim(2)...)
		d := p.claimStep("d")
		require.Equal(w.t, []persistence.Outcome{
			{Step: "c", Index: 2, State: lifecycle.Completed, Output: []byte(`"c"`), Size: 3},
			{Step: "b", Index: 1, State: lifecycle.Completed, Output: []byte(`"b"`), Size: 3},
		}, d.Parents)
		require.Empty(w.t, d.Failed)
		w.requireTasks(run, states{"a": "completed", "b": "completed", "c": "completed", "d": "running"})
	}},
	{"grants/large", "a payload over the limit is named in the grant and loaded apart", func(w *world) {
		d := w.draft(w.with(Chain(2)))
		d.Input = large()
		w.trigger(d)
		p := w.pod()
		first := p.claimStep("s0")
		require.True(w.t, first.LargeInput)
		require.Equal(w.t, len(d.Input), first.InputSize)
		require.Nil(w.t, first.Input)
		input := call(persistence.Payload(w.ctx, w.store, workflow.TaskID{Run: d.Run, Step: lifecycle.RunStep})).must(w)
		require.Equal(w.t, d.Input, input)
		done := completion(first)
		done.Output = large()
		p.report(done)
		second := p.claimStep("s1")
		require.Equal(w.t, []persistence.Outcome{
			{Step: "s0", State: lifecycle.Completed, Large: true, Size: len(done.Output)},
		}, second.Parents)
		require.Equal(w.t, done.Output, call(persistence.Payload(w.ctx, w.store, first.Task)).must(w))
	}},
	// A join of many small outputs: of those that came before the limit was reached the grant
	// has the bytes, of the others the sizes.
	{"grants/in_sum", "a grant carries payloads up to the limit in sum, in the order of the parameters", func(w *world) {
		const width, size = 10, persistence.InlinePayloadMax / 5
		d := w.draft(w.with(Fan(width)))
		d.Input = bytes.Repeat([]byte("i"), size/2)
		w.trigger(d)
		p := w.pod()
		p.complete(p.claimStep("root"))
		for _, g := range p.claim(width) {
			done := completion(g)
			done.Output = bytes.Repeat([]byte{byte('0' + g.Task.Step)}, size)
			p.report(done)
		}
		join := p.claim(1)[0]
		require.Len(w.t, join.Parents, width)
		require.Len(w.t, join.Input, size/2)
		require.Equal(w.t, size/2, join.InputSize)
		var left []int32
		for i, o := range join.Parents {
			require.Equal(w.t, size, o.Size)
			require.Equal(w.t, i >= 4, o.Large, i)
			if !o.Large {
				require.Len(w.t, o.Output, size)
				continue
			}
			require.Nil(w.t, o.Output)
			left = append([]int32{o.Index}, left...)
		}
		payloads := call(w.store.Payloads(w.ctx, d.Run, append(left, lifecycle.RunStep))).must(w)
		for i, step := range left {
			require.Equal(w.t, bytes.Repeat([]byte{byte('0' + step)}, size), payloads[i])
		}
		require.Equal(w.t, d.Input, payloads[len(left)])
		call(w.store.Payloads(w.ctx, d.Run, append(left, 99))).fails(w, persistence.ErrRunNotFound)
	}},
	{"grants/same_claim_again", "the same claim id again returns the same grants and claims nothing more", func(w *world) {
		_, p := w.backlog(5, Single())
		request := p.request(3)
		first := p.ask(request)
		again := p.ask(request)
		require.ElementsMatch(w.t, first.Grants, again.Grants)
		require.Equal(w.t, 3, again.Scanned, "there may be more")
		require.Len(w.t, p.claim(10), 2)
	}},
	{"grants/same_claim_later", "a repeated claim returns what is still held", func(w *world) {
		_, p := w.backlog(3, Single())
		request := p.request(3)
		first := p.ask(request)
		p.complete(first.Grants[1])
		require.ElementsMatch(w.t, []persistence.Grant{first.Grants[0], first.Grants[2]}, p.ask(request).Grants)
	}},
	{"grants/claim_of_another_pod", "a claim id means nothing for another pod", func(w *world) {
		w.trigger(w.drafts(w.with(Single()), tenantA, 2)...)
		p, q := w.pod(), w.pod()
		request := p.request(1)
		first := p.ask(request)
		request.Pod = q.id
		second := q.ask(request)
		require.Len(w.t, second.Grants, 1)
		require.NotEqual(w.t, first.Grants[0].Task, second.Grants[0].Task)
	}},
	{"grants/finished", "a renewal forgets claims of which nothing is held, and no others", func(w *world) {
		w.trigger(w.drafts(w.with(Single()), tenantA, 4)...)
		p, q := w.pod(), w.pod()
		done := p.ask(p.request(1)).Grants
		half := p.ask(p.request(2)).Grants
		other := q.ask(q.request(1)).Grants
		p.complete(done...)
		p.complete(half[0])
		q.complete(other...)
		require.Len(w.t, w.snapshot().Claims, 4)
		require.Equal(w.t, []persistence.Held{{Task: half[1].Task, Epoch: half[1].Epoch}}, p.renew().Unheld)
		for _, claim := range w.snapshot().Claims {
			require.NotEqual(w.t, done[0].Claim, claim.ID)
		}
		require.Len(w.t, w.snapshot().Claims, 3) // two of them are of one claim
		p.complete(half[1])
		p.renew()
		claims := w.snapshot().Claims
		require.Len(w.t, claims, 1)
		require.Equal(w.t, q.id, claims[0].Pod)
	}},
}
