package postgres

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// long is a retention whose spans are days.
var long = persistence.Retention{500 * day}

const day = 24 * time.Hour

// addSpans makes spans of a day before an instant.
func addSpans(t testing.TB, s *Store, before time.Time, count int) {
	t.Helper()
	for n := range count {
		one := history.Span{Class: 0}
		one.Since, one.Until = long.SpanOf(0, before.Add(-time.Duration(n+1)*day))
		require.NoError(t, s.Write(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return s.MakeSpan(ctx, tx, &one) }))
	}
}

// days starts and ends runs on some days, and returns them by day; all but those of the
// last are in history, and all spans of others are sealed.
func (a *annals) days(g *workflow.Graph, pod int64, count int) [][]workflow.RunID {
	a.t.Helper()
	var runs [][]workflow.RunID
	for n := range count {
		if n > 0 {
			a.pass(day)
		}
		runs = append(runs, a.start(g, "a", 3))
		if n < count-1 {
			a.finish(pod)
			a.archiveDay(3)
		}
	}
	a.seal()
	return runs
}

func (a *annals) archiveDay(want int) {
	a.t.Helper()
	out := a.archived(a.epoch, persistence.Archive{Retention: long})
	require.Equal(a.t, want, out.Count)
}

func (a *annals) seal() {
	a.t.Helper()
	for more := true; more; {
		out, err := a.store.DropHistory(a.ctx, a.epoch, long, a.clock)
		require.NoError(a.t, err)
		require.Zero(a.t, out.Spans)
		more = out.More
	}
}

// spansLocked runs a statement and returns how many spans of history, and their
// indexes, it has locked.
func (a *annals) spansLocked(name string, args pgsql.Named) (tables, indexes int) {
	a.t.Helper()
	tx, err := a.store.Conns.Begin(a.ctx)
	require.NoError(a.t, err)
	defer func() { require.NoError(a.t, tx.Rollback(a.ctx)) }()
	if name == "drop_keys" { // as dropKeys does
		custom := pgsql.Named{"names": []string{"plan_cache_mode"}, "values": []string{"force_custom_plan"}}
		require.NoError(a.t, a.store.Exec(a.ctx, tx, "set_local", custom))
	}
	require.NoError(a.t, a.store.Exec(a.ctx, tx, name, args))
	require.NoError(a.t, tx.QueryRow(a.ctx, `select count(*) filter (where c.relkind = 'r'), count(*) filter (where c.relkind = 'i')
		from pg_locks l join pg_class c on c.oid = l.relation
		where l.pid = pg_backend_pid() and c.relname like 'run\_history\__\_%'`).Scan(&tables, &indexes))
	return tables, indexes
}

// indexesOf is how many indexes a span of history has that is sealed.
const indexesOf = 5

// reading are the statements that read one run, with their arguments.
func reading(run workflow.RunID) map[string]pgsql.Named {
	id := [16]byte(run)
	return map[string]pgsql.Named{
		"find_run":            {"run": id, "tenant": "a"},
		"find_runs":           {"runs": pgsql.UUIDs{run}, "always": true},
		"read_runs":           {"runs": pgsql.UUIDs{run}, "outputs": true, "tenant": pgsql.TextOrNull("a")},
		"read_tasks":          {"run": id, "tenant": "a", "outputs": true},
		"read_step_names":     {"run": id, "tenant": "a"},
		"read_events":         {"run": id, "seen": []int64{}, "limit": 100},
		"read_payloads":       {"run": id, "steps": []int32{0}},
		"explain_run":         {"run": id, "tenant": "a"},
		"explain_end":         {"run": id, "outputs": false, "limit": 20},
		"read_dead_run":       {"run": id},
		"read_dead_tasks":     {"run": id, "outputs": false},
		"read_dead_letter":    {"run": id, "step": 0, "tenant": pgsql.TextOrNull("a")},
		"read_dead_events":    {"run": id, "step": 0, "limit": 100},
		"read_dead_parents":   {"run": id, "step": 0, "inline_max": 100, "outputs": true},
		"load_archived":       {"runs": pgsql.UUIDs{run}},
		"load_archived_tasks": {"runs": pgsql.UUIDs{run}},
		"keep_outputs":        {"new": id, "run": id, "steps": []int32{0}, "outputs": true},
		"list_runs":           listing(id, ""),
		"list_tenant_runs":    listing(id, "a"),
	}
}

// listing are the arguments of a listing that ends with one run.
func listing(before [16]byte, tenant string) pgsql.Named {
	args := pgsql.Named{
		"before": before, "from": [16]byte{}, "states": []int16{}, "tenant": pgsql.TextOrNull(tenant), "limit": 1, "piece": 100, "ended": true,
	}
	for _, name := range []string{"labels", "workflow", "key", "origin", "class", "step"} {
		args[name] = pgsql.TextOrNull("")
	}
	return args
}

// Retentions of a year have hundreds of spans. A read of an open run opens none of them, a
// read of a run in history only its own.
func TestARunIsReadWithoutALookIntoEachSpan(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	addSpans(t, a.store, a.clock, 400)
	pod := a.join(100 * day)
	runs := a.days(g, pod, 4)
	for name, args := range reading(runs[3][2]) {
		switch name {
		case "load_archived", "load_archived_tasks":
			continue // they read history only
		case "list_runs", "list_tenant_runs":
			args["before"] = uuidMax
		}
		tables, _ := a.spansLocked(name, args)
		require.Zero(t, tables, "%s of a run at work", name)
	}
	for name, args := range reading(runs[1][1]) {
		tables, indexes := a.spansLocked(name, args)
		want := 1
		if name == "read_dead_letter" || name == "read_dead_parents" {
			want = 0 // there is no letter
		}
		require.Equal(t, [2]int{want, indexesOf * want}, [2]int{tables, indexes}, "%s of a run in history", name)
	}
	for name, args := range reading(workflow.RunID(uuidMax)) {
		tables, _ := a.spansLocked(name, args)
		require.Zero(t, tables, "%s of no run", name)
	}
}

// The leader, too, opens the span that it writes to, or drops, and no other.
func TestTheLeaderOpensOneSpan(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	addSpans(t, a.store, a.clock, 60)
	pod := a.join(100 * day)
	ids := a.start(g, "a", 3)
	a.finish(pod)
	a.archiveOne() // makes the span
	slices.SortFunc(ids, compareRuns)
	los, his := history.Intervals(ids)
	since, until := long.SpanOf(0, a.clock)
	for name, args := range map[string]pgsql.Named{
		"archive_runs": {"runs": pgsql.UUIDs(ids), "los": los, "his": his, "spans": []int32{1}},
		"drop_keys":    {"class": 0, "since": since, "until": until, "after": [16]byte{}, "limit": 100},
	} {
		tables, _ := a.spansLocked(name, args)
		require.Equal(t, 1, tables, name)
	}
}

func compareRuns(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) }

var uuidMax = [16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Whatever is in history is found, also what came into a span that was sealed.
func TestSealedSpansTakeWhatComesLate(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	addSpans(t, a.store, a.clock, 20)
	pod := a.join(100 * day)
	runs := a.days(g, pod, 5)
	sealed := value[int](a.database, `select count(*) from {schema}.spans where lowest is not null`)
	require.Equal(t, 24, sealed)
	a.pass(-3 * day)
	late := a.draft(g, "a", 2)
	late[0].Key = "key"
	require.Equal(t, persistence.Triggered, a.ask(late...)[0].Result)
	a.finish(pod)
	a.archiveDay(5) // and those of the last day
	a.requireSound()
	all := append(slices.Concat(runs...), late[0].Run, late[1].Run)
	require.Equal(t, sealed, value[int](a.database, `select count(*) from {schema}.spans where lowest is not null`))
	require.Zero(t, value[int](a.database, `select count(*)
		from {schema}.spans s join {schema}.run_history h on h.class = s.class and h.finished_at >= s.since and h.finished_at < s.until
		where h.id < s.lowest or h.id > s.highest`))
	for _, id := range all {
		row, err := a.store.Run(a.ctx, "a", id)
		require.NoError(t, err)
		require.Equal(t, id, row.ID)
		require.NotEmpty(t, row.Output)
		tasks, err := a.store.Tasks(a.ctx, "a", id)
		require.NoError(t, err)
		require.Len(t, tasks, 4)
		events, err := a.store.Events(a.ctx, "a", id, nil, 0)
		require.NoError(t, err)
		require.Len(t, events, 15)
	}
	slices.SortFunc(all, compareRuns)
	slices.Reverse(all)
	for _, filter := range []persistence.RunFilter{{Limit: 2}, {Limit: 5, Tenant: "a"}, {Limit: 100, Tenant: "a", Workflow: g.Name}} {
		require.Equal(t, all, a.pages(filter))
	}
	require.Empty(t, a.pages(persistence.RunFilter{Workflow: "other", Limit: 2}))
	require.Equal(t, persistence.Triggered, a.ask(late...)[0].Result, "it exists")
	require.Equal(t, 0, value[int](a.database, `select count(*) from {schema}.workflow_runs`))
}

// pages returns what a filter finds, page by page.
func (a *annals) pages(filter persistence.RunFilter) (ids []workflow.RunID) {
	a.t.Helper()
	for {
		list, err := a.store.ListRuns(a.ctx, filter)
		require.NoError(a.t, err)
		for i := range list.Rows {
			ids = append(ids, list.Rows[i].ID)
		}
		if list.Next.IsZero() {
			return ids
		}
		filter.Before = list.Next
	}
}

// A run that moves into history while it is asked for is found.
func TestARunIsFoundWhileItMovesIntoHistory(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * day)
	const count = 60
	ids := a.start(g, "a", count)
	a.finish(pod)
	a.archiveOne() // makes the span
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		for range count - 1 {
			a.archiveOne()
		}
	}()
	for over := false; !over; {
		select {
		case <-moved:
			over = true
		default:
		}
		for _, id := range ids {
			_, err := a.store.Run(a.ctx, "a", id)
			require.NoError(t, err)
			tasks, err := a.store.Tasks(a.ctx, "a", id)
			require.NoError(t, err)
			require.Len(t, tasks, 4)
			out := a.cancel(persistence.Cancel{Run: id, Tenant: "a"})
			require.True(t, out.State.Terminal())
		}
		list, err := a.store.ListRuns(a.ctx, persistence.RunFilter{Tenant: "a"})
		require.NoError(t, err)
		require.Len(t, list.Rows, count)
	}
	require.Equal(t, count, value[int](a.database, `select count(*) from {schema}.run_history`))
}

func (a *annals) archiveOne() {
	a.t.Helper()
	for {
		out, err := a.store.ArchiveRuns(a.ctx, a.epoch, persistence.Archive{Limit: 1, Retention: long})
		if err != nil || out.Count == 1 {
			if err != nil {
				a.t.Error(err)
			}
			return
		}
	}
}
