package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var countRules = []rule{
	{"counts/recount", "counts are what a listing shows, while runs go on, end, move into history and are removed", func(w *world) {
		short := retained("short", workflow.RetainShort)
		graphs := []*workflow.Graph{short, Single(), Chain(2)}
		w.with(graphs...)
		var drafts []persistence.Trigger
		for i := range 24 {
			d := w.draft(graphs[i%3])
			if i%4 == 0 {
				d.Tenant = tenantB
			}
			drafts = append(drafts, d)
		}
		w.requireCounted()
		w.trigger(drafts...)
		w.requireCounted()
		p := w.pod()
		for n, g := range p.claim(18) {
			if n%3 == 0 {
				p.fail(g)
			} else {
				p.complete(g)
			}
		}
		w.cancel(drafts[23].Run)
		w.requireCounted()
		require.Equal(w.t, 5, w.archiveFrom(workflow.RunID{}, 5).Count)
		w.requireCounted()
		w.archive(0)
		w.requireCounted()
		w.drop()
		w.requireCounted()
		p.finish()
		w.archive(0)
		w.requireCounted()
		w.advance(2 * time.Hour)
		require.Positive(w.t, w.drop().Spans)
		w.requireCounted()
		require.Empty(w.t, call(w.store.CountRuns(w.ctx, persistence.CountFilter{Workflow: "short"})).must(w))
	}},
	{"counts/open_bound", "of runs that have not ended no more than a bound are counted", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantA, persistence.CountMax)...)
		count := func(f persistence.CountFilter) persistence.RunCount {
			counts := call(w.store.CountRuns(w.ctx, f)).must(w)
			require.Len(w.t, counts, 1)
			return counts[0]
		}
		require.Equal(w.t, persistence.RunCount{State: lifecycle.Running, Runs: persistence.CountMax}, count(persistence.CountFilter{}))
		w.trigger(w.drafts(g, tenantA, 2)...)
		for _, f := range []persistence.CountFilter{{}, {Tenant: tenantA}, {Workflow: "single", States: []lifecycle.State{lifecycle.Running}}} {
			require.Equal(w.t, persistence.RunCount{State: lifecycle.Running, Runs: persistence.CountMax, AtLeast: true}, count(f))
		}
	}},
	{"counts/shared", "an answer may be as old as its caller says", func(w *world) {
		g, p := w.withPod(Single())
		filter := persistence.CountFilter{States: []lifecycle.State{lifecycle.Completed}, MaxAge: time.Hour}
		first := call(w.store.CountRuns(w.ctx, filter)).must(w)
		w.start(g)
		p.finish()
		later := call(w.store.CountRuns(w.ctx, filter)).must(w)
		require.Empty(w.t, first)
		require.LessOrEqual(w.t, len(later), 1)
		filter.MaxAge = 0
		require.Equal(w.t, []persistence.RunCount{{State: lifecycle.Completed, Runs: 1}}, call(w.store.CountRuns(w.ctx, filter)).must(w))
	}},
	{"counts/unknown", "what no run has is not counted", func(w *world) {
		w.start(w.with(Single()))
		for _, text := range []string{"absent", "absent\x00", "absent\xff"} {
			require.Empty(w.t, call(w.store.CountRuns(w.ctx, persistence.CountFilter{Tenant: text})).must(w))
			require.Empty(w.t, call(w.store.CountRuns(w.ctx, persistence.CountFilter{Workflow: text})).must(w))
		}
		require.Empty(w.t, call(w.store.CountRuns(w.ctx, persistence.CountFilter{By: persistence.ByHour})).must(w), "it has not ended")
	}},
}

// requireCounted requires that runs are counted as they are listed, by whatever they are
// counted.
func (w *world) requireCounted() {
	w.t.Helper()
	var rows []persistence.RunRow
	for filter, more := (persistence.RunFilter{}), true; more; more = !filter.Before.IsZero() {
		page := call(w.store.ListRuns(w.ctx, filter)).must(w)
		rows, filter.Before = append(rows, page.Rows...), page.Next
	}
	for by := range persistence.CountBy(8) {
		for _, filter := range []persistence.CountFilter{
			{}, {Tenant: tenantB}, {Workflow: "chain2"}, {Tenant: tenantA, Workflow: "single", States: []lifecycle.State{lifecycle.Failed, lifecycle.Running}},
		} {
			filter.By = by
			require.Equal(w.t, recount(rows, filter), call(w.store.CountRuns(w.ctx, filter)).must(w), "%+v", filter)
		}
	}
	for _, row := range rows {
		if row.FinishedAt.IsZero() {
			continue
		}
		hour := row.FinishedAt.UTC().Truncate(time.Hour)
		for _, filter := range []persistence.CountFilter{
			{Since: hour, Until: hour.Add(time.Microsecond)},
			{Since: hour.Add(time.Hour)},
			{Until: hour, By: persistence.ByHour},
			{Since: hour.Add(-time.Hour), Until: hour.Add(30 * time.Minute), By: persistence.ByHour},
		} {
			require.Equal(w.t, recount(rows, filter), call(w.store.CountRuns(w.ctx, filter)).must(w), "%+v", filter)
		}
		break
	}
}

// recount counts listed runs. All of them ended lately.
func recount(rows []persistence.RunRow, f persistence.CountFilter) []persistence.RunCount {
	groups := map[persistence.RunCount]int64{}
	for _, row := range rows {
		listed := persistence.RunFilter{Tenant: f.Tenant, Workflow: f.Workflow, States: f.States}
		if !listed.Matches(&row) || f.Timed() && !row.State.Terminal() {
			continue
		}
		group := persistence.RunCount{State: row.State}
		if f.Timed() {
			from := row.FinishedAt.UTC().Truncate(time.Hour)
			if !f.Since.IsZero() && !from.Add(time.Hour).After(f.Since) || !f.Until.IsZero() && !from.Before(f.Until) {
				continue
			}
			if f.By&persistence.ByHour != 0 {
				group.From, group.Width = from, time.Hour
			}
		}
		if f.By&persistence.ByWorkflow != 0 {
			group.Workflow = row.Workflow
		}
		if f.By&persistence.ByTenant != 0 {
			group.Tenant = row.Tenant
		}
		groups[group]++
	}
	counts := []persistence.RunCount{}
	for group, runs := range groups {
		group.Runs = runs
		counts = append(counts, group)
	}
	return inOrder(counts)
}

// inOrder sorts counts as answers have them.
func inOrder(counts []persistence.RunCount) []persistence.RunCount {
	slices.SortFunc(counts, func(a, b persistence.RunCount) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Workflow, b.Workflow), cmp.Compare(a.State, b.State))
	})
	return counts
}
