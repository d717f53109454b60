package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// ended returns how many runs have ended, as they are counted, and whether that is all.
func (a *annals) ended(filter persistence.CountFilter) (runs int64, exact bool) {
	a.t.Helper()
	filter.States = []lifecycle.State{lifecycle.Completed, lifecycle.Failed, lifecycle.Canceled}
	counts, err := a.store.CountRuns(a.ctx, filter)
	require.NoError(a.t, err)
	exact = true
	for _, c := range counts {
		runs, exact = runs+c.Runs, exact && !c.AtLeast
	}
	return runs, exact
}

func (a *annals) requireEnded(want int64, filter persistence.CountFilter) {
	a.t.Helper()
	runs, exact := a.ended(filter)
	require.Equal(a.t, want, runs)
	require.True(a.t, exact)
}

// archiveAsBefore moves what has ended into history as a leader does that does not count.
func (a *annals) archiveAsBefore() {
	a.t.Helper()
	runs := value[[][16]byte](a.database, `select array_agg(id order by id) from {schema}.workflow_runs where state >= 10`)
	list := make(pgsql.UUIDs, len(runs))
	for i, id := range runs {
		list[i] = id
	}
	los, his := history.Intervals(list)
	require.NoError(a.t, a.store.Write(a.ctx, func(ctx context.Context, tx pgx.Tx) error {
		return a.store.Exec(ctx, tx, "archive_runs", pgsql.Named{"runs": list, "los": los, "his": his, "spans": []int32{}})
	}))
}

// What a leader of an earlier version moves into history is counted later, and until then a
// count says that there may be more.
func TestCountsHealAfterALeaderThatDoesNotCount(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * day)
	a.start(g, "a", 3)
	a.finish(pod)
	a.archiveDay(3)
	a.requireEnded(3, persistence.CountFilter{})
	a.start(g, "a", 4)
	a.finish(pod)
	a.requireEnded(7, persistence.CountFilter{})
	a.archiveAsBefore()
	runs, exact := a.ended(persistence.CountFilter{})
	require.Equal(t, int64(3), runs)
	require.False(t, exact)
	a.start(g, "b", 1)
	a.finish(pod)
	a.archiveDay(1) // by this version: it is not counted twice
	a.seal()
	a.requireEnded(8, persistence.CountFilter{})
	a.requireEnded(1, persistence.CountFilter{Tenant: "b"})
	a.requireEnded(8, persistence.CountFilter{By: persistence.ByHour})
	require.Empty(t, a.miscounted())

	a.pass(2 * day)
	a.seal()
	a.pass(-2 * day)
	a.start(g, "a", 2)
	a.finish(pod)
	a.archiveAsBefore() // into a sealed span, where a trigger counts
	a.requireEnded(10, persistence.CountFilter{})
	a.pass(2 * day)
	a.seal()
	a.requireEnded(10, persistence.CountFilter{})
	require.Empty(t, a.miscounted())
}

// miscounted lists the spans of which the counts are not what a recount says.
func (a *annals) miscounted() []int32 {
	a.t.Helper()
	return value[[]int32](a.database, `select coalesce(array_agg(s.span), '{}')
		from {schema}.spans s, lateral (
			select array_agg(z order by z) as list from (
				select (h.tenant, date_trunc('day', h.finished_at, 'UTC'), h.definition, h.state, count(*)::bigint)::text
				from {schema}.run_history h
				where h.class = s.class and h.finished_at >= s.since and h.finished_at < s.until and h.slice = 0
				group by h.tenant, date_trunc('day', h.finished_at, 'UTC'), h.definition, h.state
			) z (z)
		) recount, lateral (
			select array_agg(z order by z) as list from (
				select (c.tenant, c.day, c.definition, c.state, sum(c.runs)::bigint)::text
				from (
					select c.tenant, c.day, c.definition, c.state, c.runs from {schema}.run_counts c where c.span = s.span and c.tenant <> ''
					union all
					select d.tenant, date_trunc('day', d.hour, 'UTC'), d.definition, d.state, d.runs from {schema}.run_count_deltas d where d.span = s.span
				) c
				group by c.tenant, c.day, c.definition, c.state
			) z (z)
		) counted
		where s.class is not null and recount.list is distinct from counted.list`)
}

// Counts by the hour become counts by the day after some days, and go with their span.
func TestCountsByTheHour(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * day)
	for range 5 { // noon, and an hour later, of five days
		a.start(g, "a", 1)
		a.finish(pod)
		a.pass(time.Hour)
		a.start(g, "a", 2)
		a.finish(pod)
		a.archiveDay(3)
		a.seal()
		a.pass(day - time.Hour)
	}
	a.pass(-day)
	last := a.clock // noon of the last day
	a.requireEnded(15, persistence.CountFilter{})
	a.requireEnded(2, persistence.CountFilter{Since: last.Add(time.Hour)})
	a.requireEnded(3, persistence.CountFilter{Until: last.Add(-4 * day)})
	counts, err := a.store.CountRuns(a.ctx, persistence.CountFilter{By: persistence.ByHour, Since: last.Add(-3 * day)})
	require.NoError(t, err)
	midnight := last.Truncate(day)
	of := func(from time.Time, width time.Duration, runs int64) persistence.RunCount {
		return persistence.RunCount{State: lifecycle.Completed, From: from, Width: width, Runs: runs}
	}
	require.Equal(t, []persistence.RunCount{
		of(midnight.Add(-3*day), day, 3),
		of(last.Add(-2*day), time.Hour, 1), of(last.Add(-2*day+time.Hour), time.Hour, 2),
		of(last.Add(-day), time.Hour, 1), of(last.Add(-day+time.Hour), time.Hour, 2),
		of(last, time.Hour, 1), of(last.Add(time.Hour), time.Hour, 2),
	}, counts)
	require.Empty(t, a.miscounted())

	a.pass(3 * day)
	short := persistence.Retention{5 * day}
	for more := true; more; {
		out, err := a.store.DropHistory(a.ctx, a.epoch, short, a.clock)
		require.NoError(t, err)
		more = out.More
	}
	kept := value[int64](a.database, `select count(*) from {schema}.run_history`)
	require.Less(t, kept, int64(15))
	a.requireEnded(kept, persistence.CountFilter{})
	require.Empty(t, a.miscounted())
}

// All that a span of an earlier version holds is counted, in pieces.
func TestAllOfHistoryIsCounted(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * day)
	runs := a.days(g, pod, 3)
	a.exec(`update {schema}.spans set counted_to = null`)
	a.exec(`truncate {schema}.run_counts, {schema}.run_counts_hourly, {schema}.run_count_deltas`)
	_, exact := a.ended(persistence.CountFilter{})
	require.False(t, exact)
	a.seal()
	a.finish(pod)
	a.requireEnded(int64(len(slices.Concat(runs...))), persistence.CountFilter{})
	require.Empty(t, a.miscounted())
}

// A search goes from piece to piece, whatever the pieces are and wherever the runs: no run is
// left out, and none is found twice.
func TestAListingSearchesPieceByPiece(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	other := storetest.Chain(2)
	numbers, err := a.store.RegisterDefinitions(a.ctx, []*workflow.Graph{other}, nil)
	require.NoError(t, err)
	a.handlers = append(a.handlers, numbers[0]...)
	addSpans(t, a.store, a.clock, 40)
	pod := a.join(100 * day)
	for n := range 8 {
		list := a.draft(g, "a", 6)
		for i := range list {
			list[i].Labels = map[string]string{"n": []string{"x", "y", "z"}[i%3], "day": time.Duration(n).String()}
			if i%2 == 1 {
				list[i].Tenant = "b"
			}
			if i == 4 && n%2 == 0 {
				list[i].Workflow, list[i].Definition, list[i].Origin = other.Name, other.Hash, "message"
			}
		}
		a.ask(list...)
		a.finishSome(pod, n)
		if n < 6 {
			a.archived(a.epoch, persistence.Archive{Retention: long})
		}
		if n < 5 {
			a.pass(day)
			a.seal()
		}
	}
	require.Positive(t, value[int](a.database, `select count(*) from {schema}.spans where labeled`))
	everything, err := a.store.ListRuns(a.ctx, persistence.RunFilter{Limit: persistence.PageMax, Budget: time.Hour})
	require.NoError(t, err)
	require.Len(t, everything.Rows, 48)
	for _, tenant := range []string{"", "a", "b", "c"} {
		for _, filter := range []persistence.RunFilter{
			{},
			{Workflow: other.Name},
			{Workflow: "none"},
			{Origin: "message"},
			{States: []lifecycle.State{lifecycle.Failed}},
			{States: []lifecycle.State{lifecycle.Running}},
			{Class: "test"},
			{FailedStep: "a"},
			{Labels: map[string]string{"n": "x"}},
			{Labels: map[string]string{"n": "y", "day": "1ns"}},
			{Labels: map[string]string{"day": "6ns"}, States: []lifecycle.State{lifecycle.Completed}},
		} {
			filter.Tenant = tenant
			want := []workflow.RunID{}
			for i := range everything.Rows {
				if filter.Matches(&everything.Rows[i]) {
					want = append(want, everything.Rows[i].ID)
				}
			}
			for _, piece := range []int{1, 2, 3, 7, 1000} {
				for _, limit := range []int{1, 2, 100} {
					require.Equal(t, want, a.inPieces(filter, piece, limit), "%+v in pieces of %d, pages of %d", filter, piece, limit)
				}
			}
		}
	}
}

// finishSome completes all tasks but some of the n-th time, which fail or are left.
func (a *annals) finishSome(pod int64, n int) {
	a.t.Helper()
	for grants := a.claim(pod, 100); len(grants) > 0; grants = a.claim(pod, 100) {
		for i, g := range grants {
			switch {
			case n == 7 && i == 0: // its run stays open
			case i%5 == 3 && g.Step == "a":
				broken := a.completion(pod, g)
				broken.Transitions[0].Report, broken.Transitions[0].Class, broken.Transitions[0].Output = lifecycle.Errored, "test", nil
				a.send(broken)
			default:
				a.complete(pod, g)
			}
		}
	}
}

// inPieces returns what a filter finds in pieces of so many rows.
func (a *annals) inPieces(filter persistence.RunFilter, piece, limit int) []workflow.RunID {
	a.t.Helper()
	labels, err := pgsql.LabelText(filter.Labels)
	require.NoError(a.t, err)
	states := []int16{}
	for _, s := range filter.States {
		states = append(states, int16(s))
	}
	args := listing(uuidMax, filter.Tenant)
	args["states"], args["labels"], args["workflow"], args["origin"] = states, labels, pgsql.TextOrNull(filter.Workflow), pgsql.TextOrNull(filter.Origin)
	args["class"], args["step"] = pgsql.TextOrNull(filter.Class), pgsql.TextOrNull(filter.FailedStep)
	args["limit"], args["piece"] = limit, piece
	name := "list_runs"
	if filter.Tenant != "" {
		name = "list_tenant_runs"
	}
	found := []workflow.RunID{}
	for range 10_000 {
		text, values := a.store.Bind(name, args)
		var page [][16]byte
		var low *[16]byte
		require.NoError(a.t, a.store.Conns.QueryRow(a.ctx, text, values...).Scan(&page, &low))
		for _, id := range page {
			found = append(found, id)
		}
		if low == nil {
			return found
		}
		before, ok := args["before"].([16]byte)
		require.True(a.t, ok)
		require.Negative(a.t, compareRuns(*low, before), "it comes further each time")
		args["before"] = *low
	}
	a.t.Fatal("the search does not end")
	return nil
}

// A listing of live runs alone does not touch history.
func TestLiveRunsAreListedWithoutHistory(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * day)
	a.days(g, pod, 3)
	for _, tenant := range []string{"", "a"} {
		args := listing(uuidMax, tenant)
		args["states"], args["ended"], args["limit"] = []int16{int16(lifecycle.Running)}, false, 100
		name := "list_runs"
		if tenant != "" {
			name = "list_tenant_runs"
		}
		tables, _ := a.spansLocked(name, args)
		require.Zero(t, tables)
	}
}
