package doctor

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, map[string]string{
		"fsync": "on", "full_page_writes": "on", "max_slot_wal_keep_size": "1GB", "max_prepared_transactions": "4", "wal_level": "logical",
	})
}

// clinic is a database with a pod at work on it.
type clinic struct {
	t    *testing.T
	pool *pgxpool.Pool
	url  string
}

func open(t *testing.T, url string) *clinic {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	return &clinic{t, pool, url}
}

// pod starts a pod with a step that ends at once and one that does not.
func (c *clinic) pod() *troupe.Handle[string, string] {
	c.t.Helper()
	engine, err := troupe.New(c.pool, troupe.Config{})
	require.NoError(c.t, err)
	handle, err := troupe.Register(engine, troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		window := troupe.Sleep(b, "fraud-window", 4*time.Hour)
		return troupe.Step0(b, "ship", func(_ context.Context, in string) (string, error) { return in, nil }, troupe.After(window))
	}))
	require.NoError(c.t, err)
	require.NoError(c.t, engine.Start(c.t.Context()))
	c.t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	require.Eventually(c.t, func() bool { return engine.Stats().Leading }, 30*time.Second, 10*time.Millisecond)
	return handle
}

func (c *clinic) exec(sql string, args ...any) {
	c.t.Helper()
	_, err := c.pool.Exec(c.t.Context(), sql, args...)
	require.NoError(c.t, err)
}

// hold runs a statement in a transaction that stays open until the test ends.
func (c *clinic) hold(sql string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(c.t.Context(), "begin; "+sql)
	require.NoError(c.t, err)
}

func (c *clinic) examine(options Options) Report {
	c.t.Helper()
	options.Schema = migrations.DefaultSchema
	if options.Now == nil {
		options.Now = time.Now
	}
	report, err := Examine(c.t.Context(), c.pool, options)
	require.NoError(c.t, err)
	for _, f := range report.Findings {
		require.NotEmpty(c.t, f.Remedy, f.Text)
		require.NotContains(c.t, f.Text, "it could not be looked at", f.Check)
		require.NotContains(c.t, f.Text, "%!", f.Check)
	}
	return report
}

// finds requires a finding of a check, with these texts in it.
func finds(t *testing.T, r Report, name string, level Level, parts ...string) {
	t.Helper()
	for _, f := range r.Findings {
		line := f.Text + " / " + f.Remedy
		missing := false
		for _, part := range parts {
			missing = missing || !strings.Contains(line, part)
		}
		if f.Check == name && f.Level == level && !missing {
			return
		}
	}
	require.Fail(t, fmt.Sprintf("no %s of %s with %q in %+v", level, name, parts, r.Findings))
}

// An installation at work has nothing to find, at any depth.
func TestAHealthyInstallation(t *testing.T) {
	c := open(t, migrated(t))
	handle := c.pod()
	_, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	report := c.examine(Options{Deep: true})
	require.Empty(t, report.Findings)
	require.Len(t, report.Checks, len(checks())+1)
	require.Contains(t, strings.Join(report.Facts, "\n"), "1 living pod with 100 slots; 1 run has not ended")
}

// Without runs no pod is needed.
func TestAnInstallationWithoutPodsOrRunsHasNothingToFind(t *testing.T) {
	c := open(t, migrated(t))
	report := c.examine(Options{})
	require.Empty(t, report.Findings)
	require.Contains(t, strings.Join(report.Facts, "\n"), "0 living pods with 0 slots; 0 runs have not ended")
}

// provoked is a finding and how to come by it.
type provoked struct {
	provoke func(c *clinic) Options
	check   string
	level   Level
	parts   []string
}

// rowHolders are transactions that may hold rows.
func rowHolders() map[string]provoked {
	strict := usual()
	strict.touched = time.Nanosecond
	return map[string]provoked{
		"a transaction that holds timers": {func(c *clinic) Options {
			c.hold("select from troupe.durable_timers for key share")
			return Options{limits: strict}
		}, "locks", Warning, []string{"pid ", "may hold rows of durable_timers for", "for key share", "pg_terminate_backend"}},
		"a lock without waiters": {func(c *clinic) Options {
			c.hold("lock table troupe.dead_letters in access exclusive mode")
			return Options{limits: strict}
		}, "locks", Problem, []string{"pid ", "holds a lock on dead_letters", "that keeps others from writing, or from reading, too: begin; lock table troupe.dead_letters", "pg_terminate_backend"}},
		"pods whose rows are locked": {func(c *clinic) Options {
			c.late(1)
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now(), '{}', '{}')")
			c.hold("select from troupe.pods for update")
			return Options{limits: strict}
		}, "pods", Problem, []string{"no pod is alive and 1 run has not ended: renewals wait for rows of pods, which may be held by pid ", "as the check locks says"}},
		"a prepared transaction that holds the queue": {func(c *clinic) Options {
			c.exec("begin; select from troupe.ready_queue for update; prepare transaction 'queue'")
			c.t.Cleanup(func() { _, _ = c.pool.Exec(context.Background(), "rollback prepared 'queue'") })
			return Options{limits: strict}
		}, "locks", Warning, []string{`the prepared transaction "queue" may hold rows of ready_queue`, "rollback prepared"}},
	}
}

// meddlings are changes made by hand.
func meddlings() map[string]provoked {
	return map[string]provoked{
		"a key that was dropped": {func(c *clinic) Options {
			c.exec("alter table troupe.run_keys drop constraint run_keys_pkey")
			return Options{}
		}, "indexes", Problem, []string{"run_keys lacks its primary key (tenant, workflow, key)", "alter table troupe.run_keys add primary key (tenant, workflow, key)"}},
		"an index that was dropped": {func(c *clinic) Options {
			c.exec("drop index troupe.durable_timers_by_wake_at")
			return Options{}
		}, "indexes", Problem, []string{"durable_timers lacks its index (wake_at)", "create index concurrently on troupe.durable_timers (wake_at)"}},
		"a foreign trigger": {func(c *clinic) Options {
			c.exec(`create function public.note() returns trigger language plpgsql as 'begin return new; end'`)
			c.exec("create trigger notes before update on troupe.tasks for each row execute function public.note()")
			return Options{}
		}, "additions", Warning, []string{"tasks has a trigger that is not the engine's, notes with", "note()", "drop trigger notes on troupe.tasks"}},
		"a table that is not logged": {func(c *clinic) Options {
			c.exec("alter table troupe.workflow_runs set unlogged")
			return Options{}
		}, "durability", Problem, []string{"the table workflow_runs is unlogged: a crash of the server empties it", "alter table troupe.workflow_runs set logged"}},
		"a lock on the version of the tables": {func(c *clinic) Options {
			c.hold("lock table troupe.schema_version in access exclusive mode")
			strict := usual()
			strict.touched = time.Nanosecond
			return Options{limits: strict}
		}, "locks", Problem, []string{"pid ", " lock", "schema_version"}},
		"a foreign rule": {func(c *clinic) Options {
			c.exec("create rule quiet as on insert to troupe.task_events do instead nothing")
			return Options{}
		}, "additions", Problem, []string{"task_events has a rule, quiet", "drop rule quiet on troupe.task_events"}},
		"a foreign policy": {func(c *clinic) Options {
			c.exec("alter table troupe.tasks force row level security")
			return Options{}
		}, "additions", Warning, []string{"tasks has row-level security", "alter table troupe.tasks disable row level security"}},
		"a foreign key": {func(c *clinic) Options {
			c.exec("create table public.bills (run uuid constraint of_run references troupe.workflow_runs (id))")
			return Options{}
		}, "additions", Warning, []string{"public.bills refers to troupe.workflow_runs with a foreign key", "alter table public.bills drop constraint of_run"}},
		"another session has the leader's lock": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			c.hold(fmt.Sprintf("select pg_advisory_lock(%d)", postgres.LeaderKey("troupe")))
			return Options{}
		}, "pods", Problem, []string{"no living pod leads", "pid ", "idle in transaction", "leader's lock", "pg_terminate_backend"}},
		"the leader's lock went to another session": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			c.exec("insert into troupe.leader_epoch (epoch, holder, at) select 7, id, now() from troupe.pods on conflict (one) do update set epoch = excluded.epoch, holder = excluded.holder")
			c.hold(fmt.Sprintf("select pg_advisory_lock(%d)", postgres.LeaderKey("troupe")))
			return Options{}
		}, "pods", Problem, []string{"no living pod leads", "pid ", "holds the leader's lock"}},
		"the leader's session hangs": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			c.exec("insert into troupe.leader_epoch (epoch, holder, at) select 7, id, now() from troupe.pods on conflict (one) do update set epoch = excluded.epoch, holder = excluded.holder")
			c.hold(fmt.Sprintf("select set_config('application_name', 'troupe leader troupe ' || (select holder from troupe.leader_epoch), false), pg_advisory_lock(%d)", postgres.LeaderKey("troupe")))
			hung := usual()
			hung.silent = time.Nanosecond
			return Options{limits: hung}
		}, "pods", Warning, []string{"the leader's session, pid ", "(troupe leader troupe ", "has said nothing for ", "pg_terminate_backend"}},
		"a prepared transaction has the leader's lock": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			c.exec(fmt.Sprintf("begin; select pg_advisory_xact_lock(%d); prepare transaction 'leads'", postgres.LeaderKey("troupe")))
			c.t.Cleanup(func() { _, _ = c.pool.Exec(context.Background(), "rollback prepared 'leads'") })
			return Options{}
		}, "pods", Problem, []string{"no living pod leads", "a prepared transaction holds the leader's lock", "pg_prepared_xacts"}},
	}
}

// provocations are those that the tests' server can be brought to.
func provocations() map[string]provoked {
	strict := usual()
	strict.transaction, strict.skew, strict.late, strict.dead = time.Nanosecond, time.Second, time.Nanosecond, 10
	return map[string]provoked{
		"clock": {func(*clinic) Options {
			return Options{Now: func() time.Time { return time.Now().Add(-75 * time.Second) }}
		}, "clock", Warning, []string{"are 1 m ", "time server"}},
		"an old transaction": {func(c *clinic) Options {
			c.hold("insert into troupe.tenants values ('x', 7)")
			return Options{limits: strict}
		}, "vacuum", Warning, []string{"keeps vacuum from removing rows", "insert into troupe.tenants", "idle_in_transaction_session_timeout"}},
		"a prepared transaction": {func(c *clinic) Options {
			c.exec("begin; insert into troupe.tenants values ('x', 7); prepare transaction 'forgotten'")
			c.t.Cleanup(func() { _, _ = c.pool.Exec(context.Background(), "rollback prepared 'forgotten'") })
			return Options{limits: strict}
		}, "vacuum", Problem, []string{`"forgotten"`, "rollback prepared"}},
		"dead rows": {func(c *clinic) Options {
			c.exec("insert into troupe.claims select n, gen_random_uuid(), '{}', '{}', '{}' from generate_series(1, 1000) n")
			c.exec("delete from troupe.claims")
			return Options{limits: strict}
		}, "dead rows", Warning, []string{"claims has 1000 dead rows beside 0", "vacuum troupe.claims"}},
		"autovacuum off": {func(c *clinic) Options {
			c.exec("alter table troupe.tasks set (autovacuum_enabled = false)")
			return Options{}
		}, "dead rows", Problem, []string{"autovacuum is off for tasks", "reset (autovacuum_enabled)"}},
		"no pod leads": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			return Options{}
		}, "pods", Problem, []string{"no living pod leads", "elect", "campaign", "DirectURL", "leader_epoch"}},
		"a dead pod": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}'), ('b', '', 1, now(), now(), '{}', '{}')")
			return Options{}
		}, "pods", Warning, []string{"1 pod is dead and still holds tasks or rows"}},
		"a lease of a clock that was ahead": {func(c *clinic) Options {
			c.exec("insert into troupe.pods (name, version, slots, started_at, expires_at, queues, handlers) values ('a', '', 1, now(), now() + interval '1 hour', '{}', '{}')")
			return Options{}
		}, "pods", Warning, []string{"1 lease ends later than it can", "the leader shortens", "update troupe.pods set expires_at"}},
		"tenants used up": {func(c *clinic) Options {
			c.exec("insert into troupe.tenants values ('x', 1000000)")
			return Options{}
		}, "ids", Warning, []string{"1000000 of 1048575 numbers of tenants"}},
		"stray events": {func(c *clinic) Options {
			c.exec("insert into troupe.task_events (run_id, step, kind, n, at) values (gen_random_uuid(), 0, 1, 1, '2000-01-01')")
			return Options{}
		}, "history", Warning, []string{"1 row is in task_events_default"}},
		"no publication": {func(c *clinic) Options {
			c.exec("drop publication troupe_wake")
			return Options{}
		}, "wake", Warning, []string{"publication troupe_wake is missing", "migrate up"}},
		"schema behind": {func(c *clinic) Options {
			c.exec("delete from troupe.schema_version where version > 3")
			return Options{}
		}, "schema", Problem, []string{"it is at version 3", "run troupe migrate up"}},
		"a broken promise": {func(c *clinic) Options {
			c.exec("insert into troupe.tasks (run_id, step, handler, pending, parents, queue, state, traits, children) values (gen_random_uuid(), 0, 1, 0, 0, 1, 2, 0, '{}')")
			return Options{Deep: true}
		}, "promises", Problem, []string{"I1 is broken", "stands in 0 places"}},
		"a queue without a frontier": {func(c *clinic) Options {
			c.exec("truncate troupe.frontiers")
			return Options{Deep: true}
		}, "promises", Problem, []string{"queue default has no row in frontiers", "makes it again"}},
		"a task without a holder": {func(c *clinic) Options {
			c.exec("insert into troupe.tasks (run_id, step, handler, pending, parents, queue, state, pod, traits, children) values (gen_random_uuid(), 0, 1, 0, 0, 1, 3, 7, 0, '{}')")
			return Options{Deep: true}
		}, "promises", Problem, []string{"I4 is broken", "runs on pod 7, which is not there", "docs/operations.md"}},
	}
}

func TestFindings(t *testing.T) {
	all := provocations()
	maps.Copy(all, lateTimers())
	maps.Copy(all, meddlings())
	maps.Copy(all, rowHolders())
	maps.Copy(all, usedUp())
	maps.Copy(all, streams())
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			c := open(t, migrated(t))
			options := test.provoke(c)
			require.Eventually(t, func() bool { // statistics take a moment
				for _, f := range c.examine(options).Findings {
					if f.Check == test.check && f.Level == test.level {
						return true
					}
				}
				return false
			}, 30*time.Second, 100*time.Millisecond)
			finds(t, c.examine(options), test.check, test.level, test.parts...)
		})
	}
}

// TestFindingsAboutWork lets pods come and go.
func TestFindingsAboutWork(t *testing.T) {
	c := open(t, migrated(t))
	engine, err := troupe.New(c.pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, troupe.Define("gone", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "resize", func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) })
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	_, err = handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	ended, stop := context.WithCancel(t.Context())
	stop()
	_ = engine.Stop(ended) // hands the task back
	require.NoError(t, tx.Rollback(t.Context()))

	finds(t, c.examine(Options{}), "pods", Problem, "no pod is alive and 1 run has not ended")
	for _, f := range c.examine(Options{}).Findings {
		require.NotEqual(t, "orphans", f.Check, "without pods no run has to be canceled")
	}
	c.pod()
	finds(t, c.examine(Options{}), "orphans", Warning, `"gone" (definition `, "has 1 run under way", "register 0 of its 1 step")
	require.Eventually(t, func() bool {
		var parked int
		require.NoError(t, c.pool.QueryRow(t.Context(), "select count(*) from troupe.parked_tasks").Scan(&parked))
		return parked == 1
	}, time.Minute, 50*time.Millisecond, "the leader sets it aside")
	finds(t, c.examine(Options{}), "parked", Warning, `step "resize" of "gone" has 1 parked task:`, "start a pod that does")
}

// An intake that no pod empties.
func TestFindingsOfTheIntake(t *testing.T) {
	c := open(t, migrated(t))
	c.exec(`insert into troupe.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, tenant)
		values (gen_random_uuid(), 1, 0, 1, 1, 1, 1, false, now() - interval '1 hour', 'a')`)
	c.exec(`insert into troupe.intake (run_id) select id from troupe.workflow_runs`)
	finds(t, c.examine(Options{}), "intake", Problem, "1 run that was stored with a transaction waits in the intake", "/readyz")
	c.exec(`delete from troupe.intake`)
	c.exec(`insert into troupe.inbox (run_id, id, name, at, payload) select id, 'x', 'approved', now() - interval '1 hour', '' from troupe.workflow_runs`)
	c.exec(`insert into troupe.intake (run_id, signal) select id, true from troupe.workflow_runs`)
	finds(t, c.examine(Options{}), "intake", Problem, "1 signal waits to be delivered", "/readyz")
}

// A session that others wait for.
func TestFindingsOfLocks(t *testing.T) {
	c := open(t, migrated(t))
	c.hold("lock table troupe.tenants in access exclusive mode")
	go func() { _, _ = c.pool.Exec(t.Context(), "select count(*) from troupe.tenants") }()
	require.Eventually(t, func() bool {
		report, err := Examine(t.Context(), c.pool, Options{Schema: migrations.DefaultSchema, Now: time.Now})
		require.NoError(t, err)
		for _, f := range report.Findings {
			if f.Check == "locks" && f.Level == Problem {
				require.Contains(t, f.Text, "1 session waits for: begin; lock table troupe.tenants")
				return true
			}
		}
		return false
	}, 30*time.Second, 500*time.Millisecond)
}
