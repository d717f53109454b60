package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var readRules = []rule{
	{"reads/run", "a run reads as it was triggered", func(w *world) {
		g := w.with(Single())
		d := w.draft(g)
		d.Key, d.Labels, d.Origin = "key", map[string]string{"region": "eu"}, "message"
		w.trigger(d)
		row := w.run(d.Run)
		require.False(w.t, row.CreatedAt.IsZero())
		require.False(w.t, row.StartedAt.IsZero())
		row.CreatedAt, row.StartedAt = time.Time{}, time.Time{}
		require.Equal(w.t, persistence.RunRow{
			ID: d.Run, Workflow: "single", Definition: g.Hash, Tenant: tenantA, Key: "key", State: lifecycle.Running,
			Origin: "message", Labels: d.Labels,
		}, row)
	}},
	{"reads/tasks", "tasks read by step, with who ran them and when", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		p.claim(1)
		rows := call(w.store.Tasks(w.ctx, tenantA, run)).must(w)
		require.Len(w.t, rows, 4)
		for i, name := range []string{"a", "b", "c", "d"} {
			require.Equal(w.t, int32(i), rows[i].Step)
			require.Equal(w.t, name, rows[i].Name)
		}
		a, b, d := rows[0], rows[1], rows[3]
		require.Equal(w.t, `"a"`, string(a.Output))
		require.Equal(w.t, int32(1), a.Attempt)
		require.Equal(w.t, int64(3), a.Epoch)
		require.Equal(w.t, p.id, a.Pod)
		require.False(w.t, a.FinishedAt.Before(a.StartedAt))
		require.Equal(w.t, int32(1), b.Attempt)
		require.Equal(w.t, "pod", b.PodName)
		require.False(w.t, b.StartedAt.IsZero())
		require.True(w.t, b.FinishedAt.IsZero())
		require.Zero(w.t, d.Attempt)
		require.Zero(w.t, d.Pod)
		require.True(w.t, d.StartedAt.IsZero())
	}},
	{"reads/without_outputs", "a run and its tasks read the same without their outputs, also in history", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		same := func() {
			row := call(w.store.Run(w.ctx, tenantA, run)).must(w)
			tasks := call(w.store.Tasks(w.ctx, tenantA, run)).must(w)
			require.Equal(w.t, `"a"`, string(tasks[0].Output))
			row.Output = nil
			for i := range tasks {
				tasks[i].Output = nil
			}
			require.Equal(w.t, row, call(w.store.Run(w.ctx, tenantA, run, persistence.WithoutOutputs)).must(w))
			require.Equal(w.t, tasks, call(w.store.Tasks(w.ctx, tenantA, run, persistence.WithoutOutputs)).must(w))
		}
		same()
		p.finish()
		same()
		require.Equal(w.t, 1, w.archive(0).Count)
		same()
	}},
	{"reads/step_names", "names of steps read by step, also before the run has tasks", func(w *world) {
		g := w.with(Mixed(workflow.FailFast))
		d := w.draft(g)
		w.trigger(d)
		names := call(w.store.StepNames(w.ctx, tenantA, d.Run)).must(w)
		require.Len(w.t, names, len(g.Nodes)+1)
		for i, node := range g.Nodes {
			require.Equal(w.t, node.Name, names[i])
		}
		require.Equal(w.t, g.OnFailure.Name, names[len(g.Nodes)])
	}},
	{"reads/pod_names", "events and tasks name their pod, also when it has ended, in history and in dead letters", func(w *world) {
		run, p := w.startWithPod(Single())
		p.claim(1)
		call(w.store.LeavePod(w.ctx, p.id)).must(w)
		q := w.pod()
		q.fail(q.claimStep("a"))
		task := w.letters()["a"].Task
		named := func() {
			events, err := w.store.Events(w.ctx, tenantA, run, persistence.EventPosition{}, 100)
			require.NoError(w.t, err)
			for _, e := range append(events, call(w.store.DeadLetter(w.ctx, tenantA, task)).must(w).Events...) {
				require.Equal(w.t, e.Pod != 0, e.PodName == "pod", "%+v", e)
			}
			for _, t := range call(w.store.Tasks(w.ctx, tenantA, run)).must(w) {
				require.Equal(w.t, t.Pod != 0, t.PodName == "pod", "%+v", t)
			}
		}
		named()
		call(w.store.LeavePod(w.ctx, q.id)).must(w)
		named()
		require.Equal(w.t, 1, w.archive(0).Count)
		named()
		w.advance(aCentury / 50)
		w.drop()
		w.requireGone(run)
		last := call(w.store.DeadLetter(w.ctx, tenantA, task)).must(w).Events
		require.Equal(w.t, "pod", last[len(last)-2].PodName)
	}},
	{"reads/ended", "those of some runs that do not go on", func(w *world) {
		g := w.with(Single())
		completed, canceled, goesOn, none := w.start(g), w.start(g), w.start(g), w.runID()
		p := w.pod()
		for _, grant := range p.claim(3) {
			if grant.Task.Run == completed {
				p.complete(grant)
			}
		}
		w.cancel(canceled)
		ended := call(w.store.EndedRuns(w.ctx, []workflow.RunID{completed, canceled, goesOn, none})).must(w)
		require.NotContains(w.t, ended, goesOn)
		require.Subset(w.t, ended, []workflow.RunID{completed, none})
		ended = call(w.store.EndedRuns(w.ctx, nil)).must(w)
		require.Empty(w.t, ended)
	}},
	{"reads/payload", "payloads come back byte for byte", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Input = []byte("{\"nul\":\"\\u0000\",\"raw\":\"\x00\xff\"}")
		w.trigger(d)
		p := w.pod()
		t := completion(p.claimStep("a"))
		t.Output = []byte("\x00\x01\xfe\xff")
		p.report(t)
		input := call(persistence.Payload(w.ctx, w.store, workflow.TaskID{Run: d.Run, Step: lifecycle.RunStep})).must(w)
		require.Equal(w.t, d.Input, input)
		require.Equal(w.t, t.Output, call(persistence.Payload(w.ctx, w.store, t.Task)).must(w))
		require.Equal(w.t, t.Output, w.run(d.Run).Output)
	}},
	{"reads/unknown", "what does not exist is not found", func(w *world) {
		run := w.start(w.with(Single()))
		nowhere := w.runID()
		w.requireHidden(tenantA, nowhere)
		for _, tenant := range []string{"absent\x00", "absent\xff"} { // no database would take these
			w.requireHidden(tenant, run)
			call(w.store.CancelRun(w.ctx, persistence.Cancel{Run: run, Tenant: tenant})).fails(w, persistence.ErrRunNotFound)
			require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenant}))
			require.Empty(w.t, w.list(persistence.RunFilter{Workflow: tenant}))
			require.Empty(w.t, w.list(persistence.RunFilter{Labels: map[string]string{"region": tenant}}))
			require.Empty(w.t, w.list(persistence.RunFilter{Labels: map[string]string{tenant: "eu"}}))
		}
		for _, id := range []workflow.TaskID{{Run: nowhere, Step: lifecycle.RunStep}, {Run: nowhere}, {Run: run, Step: 9}} {
			call(persistence.Payload(w.ctx, w.store, id)).fails(w, persistence.ErrRunNotFound)
		}
	}},
}

// requireHidden requires that no reader finds a run.
func (w *world) requireHidden(tenant string, run workflow.RunID) {
	w.t.Helper()
	call(w.store.Run(w.ctx, tenant, run)).fails(w, persistence.ErrRunNotFound)
	call(w.store.Tasks(w.ctx, tenant, run)).fails(w, persistence.ErrRunNotFound)
	call(w.store.StepNames(w.ctx, tenant, run)).fails(w, persistence.ErrRunNotFound)
	call(w.store.Events(w.ctx, tenant, run, nil, 10)).fails(w, persistence.ErrRunNotFound)
	call(w.store.Payload(w.ctx, tenant, run, "", 10)).fails(w, persistence.ErrRunNotFound)
}

var listRules = []rule{
	{"list/pages", "runs come newest first, in pages that neither repeat nor leave out", func(w *world) {
		g := w.with(Single())
		drafts := w.drafts(g, tenantA, 25)
		w.trigger(drafts...)
		w.trigger(w.drafts(g, tenantB, 5)...)
		var want, got []workflow.RunID
		for _, d := range slices.Backward(drafts) {
			want = append(want, d.Run)
		}
		filter := persistence.RunFilter{Tenant: tenantA, Limit: 10}
		for more := true; more; more = !filter.Before.IsZero() {
			page := call(w.store.ListRuns(w.ctx, filter)).must(w)
			require.LessOrEqual(w.t, len(page.Rows), 10)
			got, filter.Before = append(got, ids(page.Rows)...), page.Next
		}
		require.Equal(w.t, want, got)
		require.Equal(w.t, want, w.list(persistence.RunFilter{Tenant: tenantA}))
	}},
	{"list/filters", "a filter selects by tenant, workflow, state and labels", func(w *world) {
		single, chain := Single(), Chain(2)
		w.with(single, chain)
		list := []persistence.Trigger{w.draft(single), w.draft(chain), w.draft(single), w.draft(chain)}
		list[1].Labels = map[string]string{"region": "eu", "tier": "free"}
		list[2].Labels = map[string]string{"region": "eu"}
		list[3].Tenant = tenantB
		w.trigger(list...)
		p := w.pod(single)
		p.finish()
		at := func(indexes ...int) []workflow.RunID {
			var want []workflow.RunID
			for _, i := range indexes {
				want = append(want, list[i].Run)
			}
			return want
		}
		require.Equal(w.t, at(2, 0), w.list(persistence.RunFilter{Tenant: tenantA, Workflow: "single"}))
		require.Equal(w.t, at(3, 1), w.list(persistence.RunFilter{States: []lifecycle.State{lifecycle.Running}}))
		require.Equal(w.t, at(3, 2, 1, 0), w.list(persistence.RunFilter{
			States: []lifecycle.State{lifecycle.Running, lifecycle.Completed},
		}))
		require.Equal(w.t, at(2, 1), w.list(persistence.RunFilter{Labels: map[string]string{"region": "eu"}}))
		require.Equal(w.t, at(1), w.list(persistence.RunFilter{Labels: map[string]string{"region": "eu", "tier": "free"}}))
		require.Equal(w.t, at(2), w.list(persistence.RunFilter{
			Labels: map[string]string{"region": "eu"}, States: []lifecycle.State{lifecycle.Completed}, Tenant: tenantA,
		}))
	}},
	{"list/outputs", "a page says which runs have an output, and carries none", func(w *world) {
		g, p := w.withPod(Single())
		for range 2 {
			w.start(g)
			p.complete(p.claimStep("a"))
		}
		w.archive(0)
		w.start(g)
		p.complete(p.claimStep("a"))
		w.start(g)
		rows := call(w.store.ListRuns(w.ctx, persistence.RunFilter{Tenant: tenantA})).must(w).Rows
		require.Len(w.t, rows, 4)
		for i, row := range rows {
			require.Equal(w.t, i > 0, row.HasOutput)
			require.Empty(w.t, row.Output)
			require.Equal(w.t, i > 0, len(w.run(row.ID).Output) > 0, "which is there")
		}
	}},
	{"list/empty", "nothing that matches is an empty page", func(w *world) {
		require.Empty(w.t, w.list(persistence.RunFilter{}))
		w.start(w.with(Single()))
		require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenantB}))
		require.Empty(w.t, w.list(persistence.RunFilter{States: []lifecycle.State{lifecycle.Failed}}))
	}},
}

var isolationRules = []rule{
	{"isolation/reads", "no read made for one tenant sees another's runs (I14)", func(w *world) {
		run := w.start(w.with(Single()))
		w.requireHidden(tenantB, run)
		require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenantB}))
		require.Equal(w.t, []workflow.RunID{run}, w.list(persistence.RunFilter{Tenant: tenantA}))
	}},
	{"isolation/cancel", "no cancel made for one tenant stops another's runs (I14)", func(w *world) {
		run := w.start(w.with(Single()))
		before := w.snapshot()
		call(w.store.CancelRun(w.ctx, persistence.Cancel{Run: run, Tenant: tenantB, Reason: "not mine", Grace: cancelGrace})).fails(w, persistence.ErrRunNotFound)
		require.Equal(w.t, before, w.snapshot())
	}},
	{"isolation/operators", "a read without a tenant sees every tenant's runs", func(w *world) {
		g := w.with(Single())
		a, b := w.draft(g), w.draft(g)
		b.Tenant = tenantB
		w.trigger(a, b)
		require.Equal(w.t, []workflow.RunID{b.Run, a.Run}, w.list(persistence.RunFilter{}))
		require.Equal(w.t, tenantB, w.run(b.Run).Tenant)
	}},
}

// list returns the ids of the runs of a listing, page by page.
func (w *world) list(filter persistence.RunFilter) (list []workflow.RunID) {
	w.t.Helper()
	for {
		page := call(w.store.ListRuns(w.ctx, filter)).must(w)
		list = append(list, ids(page.Rows)...)
		if page.Next.IsZero() {
			return list
		}
		filter.Before = page.Next
	}
}

func ids(rows []persistence.RunRow) (ids []workflow.RunID) {
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}
