package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestPrepareEveryStatement has PostgreSQL check every file of sql/.
func TestPrepareEveryStatement(t *testing.T) {
	d := schemas(t)(t)
	for name, s := range d.store.Statements {
		_, err := d.user.Exec(t.Context(), "prepare "+name+" as "+s.Text)
		require.NoError(t, err, "%s", name)
	}
}

// hot are the statements whose cost must not depend on what was in the tables
// when statistics were gathered, or on how much is in them.
var hot = []string{
	"record_fast", "record_small", "claim_tasks", "claim_first", "trigger_fast", "trigger_single", "trigger_single_granted", "load_grants", "lock_runs", "lock_runs_free", "locked_runs", "locked_tenants", "lock_counters", "load_runs", "load_tasks",
	"load_open_tasks", "update_runs", "update_tasks", "delete_timers", "delete_parked", "expand_runs", "start_runs",
	"find_keys", "read_key", "find_runs", "find_tenants", "look_tenant", "delete_intake", "parked_tasks", "parked_work", "allot_blocks", "renew_pod", "held_tasks", "due_timers", "fast_tasks", "read_timers", "count_running", "save_progress",
	"find_continued", "find_addressees", "insert_signals", "find_signals", "load_undelivered", "load_untaken", "deliver_signals", "drop_undelivered",
	"insert_children", "tell_family", "load_family", "give_outputs", "has_work_parents", "list_child_runs",
	"load_maps", "update_maps", "load_taken", "load_dynamic", "read_elements",
	"load_machines", "write_machines", "trim_machines", "continue_runs", "find_older",
}

// large are the tables that grow.
var large = []string{
	"workflow_runs", "tasks", "task_events", "durable_timers", "run_keys", "parked_tasks", "task_progress", "tenants", "ready_queue",
	"intake", "inbox", "maps", "map_items", "machines", "tenant_groups",
}

// others are the indexes beside the primary keys by which those are read.
var others = []string{"parked_tasks_by_handler", "tenants_group_id_key", "durable_timers_by_wake_at", "intake_signals", "tasks_with_child", "tasks_dynamic", "tasks_with_entry", "inbox_by_number"}

// TestPlansDoNotDependOnStatistics plans the hot statements on empty tables
// that were just analysed: nothing may scan a table, or an index without a
// condition.
func TestPlansDoNotDependOnStatistics(t *testing.T) {
	d := schemas(t)(t)
	require.NoError(t, d.analyze(t.Context()))
	for _, name := range hot {
		s, ok := d.store.Statements[name]
		require.True(t, ok, name)
		plan := d.plan(s)
		t.Logf("%s: %d nodes", name, strings.Count(plan, `"Node Type"`))
		for _, finding := range scans(t, plan) {
			t.Errorf("%s: %s", name, finding)
		}
	}
}

// TestTheLabelsOfAFilterAreCastOnce: a cast in a condition on rows would be one a row.
func TestTheLabelsOfAFilterAreCastOnce(t *testing.T) {
	d := schemas(t)(t)
	for _, name := range []string{"list_runs", "list_tenant_runs"} {
		plan := d.plan(d.store.Statements[name])
		require.Contains(t, plan, "labels @> ", name)
		require.NotRegexp(t, `labels @> [^"]*::jsonb`, plan, name)
	}
}

// plan returns the generic plan of a statement.
func (d *database) plan(s pgsql.Statement) string {
	d.t.Helper()
	conn, err := d.store.Conns.Acquire(d.t.Context())
	require.NoError(d.t, err)
	defer conn.Release()
	_, err = conn.Exec(d.t.Context(), "prepare planned as "+s.Text)
	require.NoError(d.t, err)
	nulls := make([]string, len(s.Args))
	for i := range nulls {
		nulls[i] = "null"
	}
	execute := "explain (format json) execute planned"
	if len(nulls) > 0 {
		execute += " (" + strings.Join(nulls, ", ") + ")"
	}
	var plan string
	require.NoError(d.t, conn.QueryRow(d.t.Context(), execute, pgx.QueryExecModeSimpleProtocol).Scan(&plan))
	_, err = conn.Exec(d.t.Context(), "deallocate planned")
	require.NoError(d.t, err)
	return plan
}

// scans lists the nodes of a plan that read more of a large table than they
// were asked for.
func scans(t *testing.T, plan string) []string {
	t.Helper()
	var roots []map[string]any
	require.NoError(t, json.Unmarshal([]byte(plan), &roots))
	var findings []string
	var walk func(node map[string]any)
	walk = func(node map[string]any) {
		kind, _ := node["Node Type"].(string)
		table, _ := node["Relation Name"].(string)
		index, _ := node["Index Name"].(string)
		if slices.Contains(large, table) && node["Operation"] == nil {
			switch {
			case kind == "Seq Scan":
				findings = append(findings, "seq scan of "+table)
			case strings.HasPrefix(kind, "Index") && node["Index Cond"] == nil:
				findings = append(findings, "full index scan of "+table)
			case index != "" && !strings.HasSuffix(index, "_pkey") && !slices.Contains(others, index):
				findings = append(findings, "scan of "+table+" by "+index)
			case strings.HasPrefix(kind, "Bitmap"):
				findings = append(findings, "bitmap scan of "+table)
			}
		}
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			node, ok := child.(map[string]any)
			require.True(t, ok)
			walk(node)
		}
	}
	for _, root := range roots {
		node, ok := root["Plan"].(map[string]any)
		require.True(t, ok)
		walk(node)
	}
	return findings
}

// TestSettings opens stores where every setting that could change the meaning
// or the plan of a statement is odd.
func TestSettings(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := openSchema(t, pool, Options{Schema: "select"})
	name := pgx.Identifier{value[string](d, `select current_database()`)}.Sanitize()
	d.exec(`create schema evil; create function evil.clock_timestamp() returns timestamptz language sql as $$ select now() - interval '1 year' $$;
		create table evil.tasks (); create table evil.workflow_runs ()`)
	for setting, to := range map[string]string{
		"search_path": "evil, pg_catalog", "timezone": "'Pacific/Auckland'", "datestyle": "'SQL, DMY'", "intervalstyle": "'sql_standard'",
		"jit": "on", "jit_above_cost": "0", "default_transaction_isolation": "'serializable'", "synchronous_commit": "off",
		"statement_timeout": "'1ms'", "plan_cache_mode": "force_custom_plan", "enable_nestloop": "off", "bytea_output": "escape",
		"enable_indexscan": "off", "extra_float_digits": "0", "lock_timeout": "'1ms'",
	} {
		d.exec("alter database " + name + " set " + setting + " = " + to)
	}
	user, err := pgx.ParseConfig(d.user.Config().ConnString())
	require.NoError(t, err)
	user.RuntimeParams["statement_timeout"] = "0"
	store, err := Open(t.Context(), Options{Pool: d.user, Direct: user, Schema: "select"})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	d.store = store
	g := storetest.Diamond()
	k := newFixture(d, g)
	pod := k.join(time.Hour)
	ids := k.start(g, "a", 3)

	tx, err := pgx.ConnectConfig(k.ctx, user)
	require.NoError(t, err)
	defer func() { _ = tx.Close(context.WithoutCancel(k.ctx)) }()
	inTx, err := tx.Begin(k.ctx)
	require.NoError(t, err)
	draft := k.draft(g, "a", 1)[0]
	draft.Key, draft.At = "key", time.Now().Add(-time.Minute)
	answer, err := k.store.TriggerInTx(k.ctx, inTx, draft)
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, answer.Result)
	require.NoError(t, inTx.Commit(k.ctx))
	drained := k.drain(10)
	require.Equal(t, 1, drained.Count)
	require.WithinDuration(t, time.Now(), drained.Now, time.Minute)

	k.finish(pod)
	for _, id := range append(ids, draft.Run) {
		row, err := k.store.Run(k.ctx, "a", id)
		require.NoError(t, err)
		require.Equal(t, "completed", row.State.String())
		require.WithinDuration(t, time.Now(), row.CreatedAt, time.Minute)
	}
	require.Equal(t, "on", showIn(t, k.store, "synchronous_commit"))
	require.Equal(t, "off", showIn(t, k.store, "jit"))
}

func showIn(t *testing.T, s *Store, setting string) string {
	t.Helper()
	var value string
	require.NoError(t, s.Conns.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&value))
	return value
}

// TestSchemasDoNotMeet runs two engines in two schemas of one database.
func TestSchemasDoNotMeet(t *testing.T) {
	g := storetest.Diamond()
	a := newFixture(schemas(t)(t), g)
	b := newFixture(openSchema(t, a.user, Options{Schema: "other"}), g)
	require.NotEqual(t, a.schema, b.schema)
	list := a.draft(g, "a", 2)
	list[0].Key, list[1].Key = "key", "key"
	tx, err := a.user.Begin(a.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(a.ctx)) }()
	_, err = a.store.TriggerInTx(a.ctx, tx, list[0])
	require.NoError(t, err)
	out, err := b.store.TriggerRuns(b.ctx, list[1:], persistence.GrantRequest{})
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, out.Answers[0].Result, "the key is held in the other schema only")
	a.start(g, "a", 5)
	podA, podB := a.join(time.Hour), b.join(time.Hour)
	require.Len(t, b.claim(podB, 10), 1)
	require.Len(t, a.claim(podA, 10), 5)
	a.requireSound()
	b.requireSound()
}

// TestIdleCosts counts what an idle pod sends.
func TestIdleCosts(t *testing.T) {
	tracer := &counter{}
	k := newFixture(openDatabase(t, Options{Tracer: tracer}), storetest.Single())
	pod := k.join(time.Hour)
	epoch := k.bump(pod)
	renew := func() error {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		return err
	}
	require.NoError(t, renew()) // the first one of a connection says how long it may wait
	for want, do := range map[string]func() error{
		"renew_pod":        renew,
		"has_work_intake":  func() error { _, err := k.store.DrainIntake(k.ctx, 10); return err },
		"has_work_timers":  func() error { _, err := k.store.FireTimers(k.ctx, epoch, 10); return err },
		"has_work_pods":    func() error { _, err := k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{}); return err },
		"has_work_parking": func() error { _, err := k.store.ParkTasks(k.ctx, epoch, 10); return err },
	} {
		tracer.take()
		require.NoError(t, do())
		require.Equal(t, []string{want}, tracer.take(), "one statement, no transaction")
	}
}

// TestOpenSaysWhatIsMissing opens a schema that was not migrated.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = Open(t.Context(), Options{Pool: pool})
	require.ErrorIs(t, err, ErrNotMigrated)
	_, err = Open(t.Context(), Options{})
	require.Error(t, err)
}
