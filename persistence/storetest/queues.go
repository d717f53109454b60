package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

var queueRules = []rule{
	{"queues/counts", "a queue tells what is ready, for how long, and what runs, of all tenants or of one", func(w *world) {
		g := w.with(Single(), Elsewhere())
		w.trigger(w.drafts(g, tenantA, 5)...)
		w.trigger(w.drafts(g, tenantB, 2)...)
		p := w.pod()
		require.Len(w.t, p.claim(3), 3) // a, b, a: they take turns
		all := w.queues("")
		require.Contains(w.t, all, "gpu", "queues in which nothing waits are told of, too")
		require.Equal(w.t, persistence.QueueRow{Queue: "gpu"}, all["gpu"])
		for tenant, want := range map[string][2]int{"": {4, 3}, tenantA: {3, 2}, tenantB: {1, 1}, "absent": {}, "nul\x00": {}} {
			q := w.queues(tenant)[defaultQueue]
			require.Equal(w.t, want, [2]int{q.Ready, q.Running}, tenant)
			require.Equal(w.t, want[0] > 0, q.Waited > 0, tenant)
			require.False(w.t, q.More)
		}
	}},
	{"queues/canceled", "a place whose task is canceled is counted until a claim meets it, and has not waited", func(w *world) {
		run := w.start(w.with(Single()))
		w.cancel(run)
		q := w.queues("")[defaultQueue]
		require.Equal(w.t, 1, q.Ready)
		require.Zero(w.t, q.Waited)
		require.Empty(w.t, w.pod().claim(1))
		require.Zero(w.t, w.queues("")[defaultQueue].Ready)
	}},
	{"queues/places", "a tenant is as far behind what was served as it has turns to wait for its last task", func(w *world) {
		g := w.with(Chain(2))
		w.trigger(w.drafts(g, tenantA, 6)...)
		w.trigger(w.drafts(g, tenantB, 2)...)
		p := w.pod()
		places := func(tenant string) []persistence.TenantPlace { return w.queues(tenant)[defaultQueue].Places }
		require.Equal(w.t, []persistence.TenantPlace{{Tenant: tenantA, New: 6}, {Tenant: tenantB, New: 2}}, places(""))
		require.Equal(w.t, []persistence.TenantPlace{{Tenant: tenantB, New: 2}}, places(tenantB))
		require.Empty(w.t, places("absent"))
		grants := p.claim(4) // two turns
		require.Equal(w.t, []persistence.TenantPlace{{Tenant: tenantA, New: 4}}, places(""))
		p.complete(grants[0])
		require.Equal(w.t, []persistence.TenantPlace{{Tenant: tenantA, Continuing: 1, New: 4}}, places(tenantA))
		p.finish()
		require.Empty(w.t, places(""))
	}},
	{"queues/parked", "parked work is told of by handler and queue, of all tenants or of one", func(w *world) {
		single, elsewhere := Single(), Elsewhere()
		w.with(single, elsewhere)
		w.trigger(w.drafts(single, tenantA, 3)...)
		w.trigger(w.drafts(single, tenantB, 1)...)
		d := w.draft(elsewhere)
		d.Queue = "other"
		w.trigger(d)
		require.Empty(w.t, call(w.store.ParkedWork(w.ctx, "")).must(w))
		require.Equal(w.t, 5, w.park().Parked)
		rows := call(w.store.ParkedWork(w.ctx, "")).must(w)
		require.Len(w.t, rows, 2)
		for i := range rows {
			require.False(w.t, rows[i].Since.IsZero())
		}
		here, a := rows[0], rows[1]
		require.Equal(w.t, persistence.ParkedRow{
			Handler: persistence.Handler{Workflow: "elsewhere", Step: "here", Fingerprint: elsewhere.Nodes[0].Fingerprint},
			Queue:   "other", Tasks: 1, Since: here.Since,
		}, here)
		require.Equal(w.t, persistence.ParkedRow{
			Handler: persistence.Handler{Workflow: "single", Step: "a", Fingerprint: single.Nodes[0].Fingerprint},
			Queue:   defaultQueue, Tasks: 4, Since: a.Since,
		}, a)
		of := call(w.store.ParkedWork(w.ctx, tenantB)).must(w)
		require.Len(w.t, of, 1)
		require.Equal(w.t, 1, of[0].Tasks)
		require.False(w.t, of[0].Since.Before(a.Since))
		for _, tenant := range []string{"absent", "nul\x00"} {
			require.Empty(w.t, call(w.store.ParkedWork(w.ctx, tenant)).must(w))
		}
		w.pod(single)
		w.park()
		require.Equal(w.t, []persistence.ParkedRow{here}, call(w.store.ParkedWork(w.ctx, "")).must(w))
	}},
}

// queues returns the queues of a tenant by name.
func (w *world) queues(tenant string) map[string]persistence.QueueRow {
	w.t.Helper()
	byName := map[string]persistence.QueueRow{}
	last := ""
	for _, q := range call(w.store.Queues(w.ctx, tenant)).must(w) {
		require.Less(w.t, last, q.Queue)
		last, byName[q.Queue] = q.Queue, q
	}
	return byName
}
