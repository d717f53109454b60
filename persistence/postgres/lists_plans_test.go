package postgres

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// archives is a database with 20,000 open runs of 200 tenants, and as many in each of
// three spans of history, every second one of which has failed.
func newArchives(t *testing.T) (a *annals, live, old workflow.RunID) {
	t.Helper()
	a, _ = newAnnals(t)
	const days = 3
	addSpans(t, a.store, a.clock, days)
	a.exec(`insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at, tenant, labels, input)
		select gen_random_uuid(), 1, i % 200 + 1, 4, 2, 1, 3, false, $1, $1, 't' || i % 200, '{"region": "eu"}', '{"a": 1}' from generate_series(1, 20000) i`, a.clock)
	a.exec(`insert into {schema}.tasks (run_id, step, handler, pending, parents, queue, state, traits, children)
		select r.id, s, 1, 0, 0, 1, 1, 0, '{}' from {schema}.workflow_runs r, generate_series(0, 1) s`)
	a.exec(`insert into {schema}.dead_letters (run_id, step, definition, reason, queue, attempts, lost, created_at, died_at, tenant, workflow, step_name)
		select r.id, 0, 1, 1, 1, 1, 0, $1, $1, r.tenant, 'w', 's' from {schema}.workflow_runs r`, a.clock)
	for day := range days {
		a.exec(`insert into {schema}.run_history (id, slice, first, class, plain, finished_at, definition, group_id, remaining, events, queue,
				state, slow, canceling, failing, unhandled, cut, handler_made, failed_step, created_at, started_at, tenant, labels, input, states, epochs,
				pods, queued, started, finished, classes, errors, outputs)
			select gen_random_uuid(), 0, 0, 0, i % 2 = 0, $1, 1, i % 200 + 1, 0, 3, 1, 10 + i % 2, false, false, false, false, false, false,
				nullif(i % 2 - 1, -1), $1, $1, 't' || i % 200, '{"region": "eu"}', '{"a": 1}', '{10,11}', '{3,3}', '{7,7}', array[$1::timestamptz, $1],
				array[$1::timestamptz, $1], array[$1::timestamptz, $1], '{null,broken}', '{null,it broke}', array['{"b": 2}'::bytea, null]
			from generate_series(1, 20000) i`, a.clock.Add(-time.Duration(day+1)*24*time.Hour))
	}
	a.exec(`insert into {schema}.inbox (run_id, id, name, at, payload) select r.id, 'x', 'go', $1, '' from {schema}.every_run r`, a.clock)
	a.exec("analyze")
	live = value[workflow.RunID](a.database, `select id from {schema}.workflow_runs limit 1`)
	old = value[workflow.RunID](a.database, `select id from {schema}.run_history limit 1`)
	return a, live, old
}

// What a person asks about a run or a tenant is answered from indexes, in the session of a
// person, whose settings are the server's.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	a, live, old := newArchives(t)
	for _, c := range []struct {
		sql  string
		args []any
		most float64 // rows that are read of large tables
	}{
		{`select * from {schema}.run_list where run = $1`, []any{live}, 10},
		{`select * from {schema}.run_list where run = $1`, []any{old}, 10},
		{`select * from {schema}.run_list where run = any($1)`, []any{[]workflow.RunID{live, old}}, 20},
		{`select * from {schema}.step_list where run = $1`, []any{live}, 10},
		{`select * from {schema}.step_list where run = $1`, []any{old}, 10},
		{`select * from {schema}.event_list where run = $1`, []any{live}, 10},
		{`select * from {schema}.event_list where run = $1`, []any{old}, 10},
		{`select * from {schema}.dead_letter_list where run = $1`, []any{live}, 10},
		{`select * from {schema}.signal_list where run = $1`, []any{live}, 10},
		{`select * from {schema}.signal_list where run = $1`, []any{old}, 10},
		{`select * from {schema}.dead_letter_list where tenant = $1 order by died_at desc limit 50`, []any{"t7"}, 300},
		{`select * from {schema}.run_list where tenant = $1 order by run desc limit 50`, []any{"t7"}, 1000},
		{`select * from {schema}.run_list where tenant = $1 order by created_at desc limit 50`, []any{"t7"}, 1000},
		{`select * from {schema}.run_list order by run desc limit 50`, nil, 500},
		{`select count(*) from {schema}.run_list where tenant = $1`, []any{"t7"}, 500},
		{`select * from {schema}.step_list where run = any(array(select run from {schema}.run_list where tenant = $1 order by run desc limit 20))`, []any{"t7"}, 10_000},
	} {
		var plan string
		explain := "explain (analyze, timing off, format json) " + strings.ReplaceAll(c.sql, "{schema}", a.schema)
		require.NoError(t, a.user.QueryRow(a.ctx, explain, c.args...).Scan(&plan), c.sql)
		read, scanned := reads(t, plan)
		t.Logf("%4.0f rows read: %s", read, c.sql)
		assert.LessOrEqual(t, read, c.most, c.sql)
		assert.Empty(t, scanned, c.sql)
	}
}

// A server compiles statements that it takes for expensive. With a year of spans that took
// minutes, for a plan of some milliseconds.
func TestListsOfALongHistoryAreNotCompiled(t *testing.T) {
	t.Parallel()
	a, _ := newAnnals(t)
	addSpans(t, a.store, a.clock, 400)
	for _, view := range []string{"run_list", "step_list", "event_list", "dead_letter_list", "signal_list"} {
		var plan string
		sql := "explain (format json) select * from " + a.schema + "." + view + " where run = $1"
		require.NoError(t, a.user.QueryRow(a.ctx, sql, workflow.RunID(uuidMax)).Scan(&plan))
		var roots []struct {
			Plan struct {
				Cost float64 `json:"Total Cost"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(plan), &roots))
		require.Less(t, roots[0].Plan.Cost, value[float64](a.database, `select current_setting('jit_above_cost')::float8`), view)
	}
}

// reads returns how many rows a plan read of tables that grow, and which of these it
// scanned as a whole, though they had rows.
func reads(t testing.TB, plan string) (rows float64, scanned []string) {
	t.Helper()
	var roots []map[string]any
	require.NoError(t, json.Unmarshal([]byte(plan), &roots))
	number := func(node map[string]any, key string) float64 {
		n, _ := node[key].(float64)
		return n
	}
	var walk func(node map[string]any)
	walk = func(node map[string]any) {
		kind, _ := node["Node Type"].(string)
		table, _ := node["Relation Name"].(string)
		if slices.Contains([]string{"workflow_runs", "tasks", "dead_letters", "inbox"}, table) || strings.HasPrefix(table, "run_history_") {
			read := number(node, "Actual Loops") * (number(node, "Actual Rows") + number(node, "Rows Removed by Filter"))
			rows += read
			if kind == "Seq Scan" && read > 0 {
				scanned = append(scanned, table)
			}
		}
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			below, ok := child.(map[string]any)
			require.True(t, ok)
			walk(below)
		}
	}
	for _, root := range roots {
		node, ok := root["Plan"].(map[string]any)
		require.True(t, ok)
		walk(node)
	}
	return rows, scanned
}
