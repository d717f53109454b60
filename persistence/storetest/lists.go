package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var filterRules = []rule{
	{"list/fields", "a filter selects by key, origin, and the first unhandled failure, also in history", func(w *world) {
		single, chain := Single(), Chain(2)
		w.with(single, chain)
		list := []persistence.Trigger{w.draft(single), w.draft(chain), w.draft(single), w.draft(chain), w.draft(chain)}
		list[0].Key, list[1].Key, list[2].Key = "k", "k", "other"
		list[3].Origin = "message"
		list[4].Key, list[4].Tenant = "k", tenantB
		w.trigger(list...)
		p := w.pod()
		failing := map[workflow.RunID]string{list[0].Run: "a", list[1].Run: "s1", list[4].Run: "s0"}
		for grants := p.claim(10); len(grants) > 0; grants = p.claim(10) {
			for _, g := range grants {
				if failing[g.Task.Run] != g.Step {
					p.complete(g)
					continue
				}
				broken := failure(g)
				broken.Class = "class-" + g.Step
				p.report(broken)
			}
		}
		require.Equal(w.t, lifecycle.Failed, w.run(list[1].Run).State)
		check := func() {
			for _, c := range []struct {
				filter persistence.RunFilter
				want   []int
			}{
				{persistence.RunFilter{Key: "k"}, []int{4, 1, 0}},
				{persistence.RunFilter{Key: "k", Tenant: tenantA}, []int{1, 0}},
				{persistence.RunFilter{Key: "k", Tenant: tenantA, Workflow: "single"}, []int{0}},
				{persistence.RunFilter{Key: "k", Tenant: tenantA, Class: "class-s1"}, []int{1}},
				{persistence.RunFilter{Key: "none", Tenant: tenantA}, nil},
				{persistence.RunFilter{Origin: "message"}, []int{3}},
				{persistence.RunFilter{Origin: "api", Tenant: tenantA}, []int{2, 1, 0}},
				{persistence.RunFilter{Class: "class-s1"}, []int{1}},
				{persistence.RunFilter{Class: "class-s0", Tenant: tenantB}, []int{4}},
				{persistence.RunFilter{FailedStep: "a"}, []int{0}},
				{persistence.RunFilter{FailedStep: "s1", Tenant: tenantA, States: []lifecycle.State{lifecycle.Failed}}, []int{1}},
				{persistence.RunFilter{FailedStep: "s1", Class: "class-s0"}, nil},
				{persistence.RunFilter{States: []lifecycle.State{lifecycle.Failed, lifecycle.Canceled}}, []int{4, 1, 0}},
				{persistence.RunFilter{States: []lifecycle.State{lifecycle.Running}}, nil},
				{persistence.RunFilter{Workflow: "none"}, nil},
			} {
				var want []workflow.RunID
				for _, i := range c.want {
					want = append(want, list[i].Run)
				}
				require.Equal(w.t, want, w.list(c.filter), "%+v", c.filter)
			}
		}
		check()
		require.Equal(w.t, 2, w.archiveFrom(workflow.RunID{}, 2).Count)
		check()
		w.archive(0)
		check()
	}},
	{"list/time", "a filter selects by when runs were created, as their ids tell", func(w *world) {
		g, p := w.withPod(Single())
		drafts := w.drafts(g, tenantA, 6)
		w.trigger(drafts...)
		p.finish()
		at := func(i int) time.Time { return madeAt(drafts[i].Run) }
		check := func() {
			for _, tenant := range []string{"", tenantA} {
				require.Equal(w.t, idsOf(drafts[4], drafts[3], drafts[2]), w.list(persistence.RunFilter{Tenant: tenant, Since: at(2), Until: at(5)}))
				require.Equal(w.t, idsOf(drafts[5]), w.list(persistence.RunFilter{Tenant: tenant, Since: at(5)}))
				require.Equal(w.t, idsOf(drafts[0]), w.list(persistence.RunFilter{Tenant: tenant, Until: at(1)}))
				require.Equal(w.t, idsOf(drafts[1], drafts[0]), w.list(persistence.RunFilter{Tenant: tenant, Until: at(1).Add(time.Microsecond)}))
				require.Equal(w.t, idsOf(drafts[3], drafts[2]), w.list(persistence.RunFilter{Tenant: tenant, Since: at(2), Before: drafts[4].Run}))
				require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenant, Since: at(5).Add(time.Microsecond)}))
				require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenant, Since: at(4), Until: at(2)}))
			}
		}
		check()
		require.Equal(w.t, 3, w.archiveFrom(workflow.RunID{}, 3).Count)
		check()
		w.archive(0)
		check()
	}},
	{"list/next", "a page says where to go on, and that nothing older matches", func(w *world) {
		g, p := w.withPod(Single())
		drafts := w.drafts(g, tenantA, 7)
		w.trigger(drafts...)
		p.finish()
		w.archiveFrom(workflow.RunID{}, 3)
		for _, tenant := range []string{"", tenantA} {
			for limit := 1; limit <= 8; limit++ {
				filter := persistence.RunFilter{Tenant: tenant, Limit: limit, States: []lifecycle.State{lifecycle.Completed}}
				var got []workflow.RunID
				for pages := 0; ; pages++ {
					require.LessOrEqual(w.t, pages, len(drafts))
					page := call(w.store.ListRuns(w.ctx, filter)).must(w)
					got = append(got, ids(page.Rows)...)
					if page.Next.IsZero() {
						break
					}
					require.Len(w.t, page.Rows, limit)
					require.Equal(w.t, page.Rows[limit-1].ID, page.Next)
					filter.Before = page.Next
				}
				want := idsOf(drafts...)
				slices.Reverse(want)
				require.Equal(w.t, want, got, "pages of %d", limit)
			}
		}
	}},
}

// idsOf returns the ids of triggers.
func idsOf(triggers ...persistence.Trigger) (ids []workflow.RunID) {
	for _, t := range triggers {
		ids = append(ids, t.Run)
	}
	return ids
}

// madeAt is the instant in an id.
func madeAt(id workflow.RunID) time.Time {
	milli := int64(0)
	for _, b := range id[:6] {
		milli = milli<<8 | int64(b)
	}
	return time.UnixMilli(milli).UTC()
}
