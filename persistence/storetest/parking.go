package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

var parkingRules = []rule{
	{"parking/out_and_back", "work that no living pod registers is parked, shown as such, and comes back with one that does", func(w *world) {
		single, diamond := Single(), Diamond()
		w.with(single, diamond)
		run := w.start(single)
		w.pod(diamond)
		out := w.park()
		require.Equal(w.t, 1, out.Parked)
		require.Zero(w.t, out.Unparked)
		w.requireTasks(run, states{"a": "queued"})
		require.True(w.t, w.tasks(run)["a"].Parked)
		w.checkInvariants()
		require.Zero(w.t, w.park().Parked)
		p := w.pod(single)
		require.Empty(w.t, p.claim(10))
		out = w.park()
		require.Equal(w.t, 1, out.Unparked)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		require.False(w.t, w.tasks(run)["a"].Parked)
		g := p.claimStep("a")
		require.Zero(w.t, g.Lost)
		require.Equal(w.t, int32(1), g.Attempt)
		p.complete(g)
		require.Equal(w.t, []string{"queued", "started", "completed"}, w.events(run)["a"])
	}},
	{"parking/registered", "work that a living pod registers stays where it is", func(w *world) {
		w.start(w.with(Single()))
		p := w.pod()
		require.Zero(w.t, w.park().Parked)
		require.Len(w.t, p.claim(1), 1)
	}},
	{"parking/dead_pods", "a dead pod registers nothing", func(w *world) {
		w.trigger(w.drafts(w.with(Single()), tenantA, 3)...)
		w.pod()
		w.advance(leaseTTL)
		w.expire()
		require.Equal(w.t, 3, w.park().Parked)
		w.pod()
		require.Equal(w.t, 3, w.park().Unparked)
	}},
	{"parking/work", "parked work is told by workflow and step, until a living pod registers it", func(w *world) {
		single, diamond := w.with(Single()), w.with(Diamond())
		w.trigger(w.drafts(diamond, tenantA, 3)...)
		w.trigger(w.drafts(single, tenantB, 2)...)
		want := []persistence.ParkedWork{
			{Workflow: diamond.Name, Step: "a", Definition: diamond.Hash, Tasks: 3},
			{Workflow: single.Name, Step: "a", Definition: single.Hash, Tasks: 2},
		}
		require.Equal(w.t, want, w.park().Work)
		require.Equal(w.t, want, w.park().Work, "as long as it is so")
		p := w.pod(single)
		out := w.park()
		require.Equal(w.t, 2, out.Unparked)
		require.Equal(w.t, want[:1], out.Work)
		call(w.store.LeavePod(w.ctx, p.id)).must(w)
		w.pod(single, diamond)
		require.Empty(w.t, w.park().Work)
	}},
	{"parking/limit", "at most limit rows move each way", func(w *world) {
		w.trigger(w.drafts(w.with(Single()), tenantA, 5)...)
		for _, want := range []int{2, 2, 1, 0} {
			out := call(w.store.ParkTasks(w.ctx, w.leader, 2)).must(w)
			require.Equal(w.t, want, out.Parked)
		}
		w.pod()
		for _, want := range []int{2, 2, 1, 0} {
			require.Equal(w.t, want, call(w.store.ParkTasks(w.ctx, w.leader, 2)).must(w).Unparked)
		}
	}},
	{"parking/canceled", "a task canceled while it is parked does not come back", func(w *world) {
		run := w.start(w.with(Single()))
		require.Equal(w.t, 1, w.park().Parked)
		w.cancel(run)
		w.requireRun(run, lifecycle.Canceled)
		p := w.pod()
		require.Zero(w.t, w.park().Unparked)
		require.Empty(w.t, p.claim(10))
		require.Empty(w.t, w.snapshot().Queue)
	}},
	{"parking/turns", "a tenant whose work comes back takes turns with those that were served meanwhile", func(w *world) {
		single, diamond := Single(), Diamond()
		w.with(single, diamond)
		w.trigger(w.drafts(single, tenantB, 50)...)
		p := w.pod(diamond)
		require.Equal(w.t, 50, w.park().Parked)
		w.trigger(w.drafts(diamond, tenantA, 30)...)
		p.claim(20)
		q := w.pod(single, diamond)
		require.Equal(w.t, 50, w.park().Unparked)
		count := map[string]int{}
		for _, g := range q.claim(10) {
			count[g.Tenant]++
		}
		require.InDelta(w.t, 5, count[tenantA], 1, "they take turns")
	}},
	{"parking/start_timeout", "a parked task waits in the queue no longer than it may", func(w *world) {
		run := w.start(w.with(Impatient(time.Minute)))
		require.Equal(w.t, 1, w.park().Parked)
		w.advance(time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireRun(run, lifecycle.Failed)
		p := w.pod()
		require.Zero(w.t, w.park().Unparked)
		require.Empty(w.t, p.claim(10))
	}},
}
