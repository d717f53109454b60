package audit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// mixedRuns is a database with runs in every state, and no pod.
func mixedRuns(t *testing.T) (*pgxpool.Pool, *pgx.Conn) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{Slots: 4})
	require.NoError(t, err)
	held := make(chan struct{})
	handle, err := troupe.Register(engine, troupe.Define("mixed", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		first := troupe.Step0(b, "first", func(_ context.Context, in string) (string, error) { return in, nil })
		retried := troupe.Step0(b, "retried", func(context.Context, string) (string, error) { return "", errors.New("not yet") },
			troupe.After(first), troupe.Retry{Attempts: 2, First: time.Hour})
		nap := troupe.Sleep(b, "nap", time.Hour, troupe.After(first))
		running := troupe.Step0(b, "running", func(_ context.Context, in string) (string, error) { <-held; return in, nil }, troupe.After(first))
		return troupe.Step1(b, "last", func(_ context.Context, in, _ string) (string, error) { return in, nil }, running, troupe.After(nap), troupe.After(retried))
	}))
	require.NoError(t, err)
	plain, err := troupe.Register(engine, troupe.Define("plain", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "only", func(_ context.Context, in string) (string, error) { return in, nil })
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() {
		close(held)
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = engine.Stop(ended)
	})
	_, err = plain.Run(t.Context(), "x")
	require.NoError(t, err)
	run, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		states := map[string]troupe.State{}
		for _, step := range status.Steps {
			states[step.Name] = step.State
		}
		return states["retried"] == troupe.StateBackoff && states["nap"] == troupe.StateSleeping && states["running"] == troupe.StateRunning
	}, 30*time.Second, 20*time.Millisecond)
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return pool, conn
}

// wrong returns the names of the queries that found something.
func wrong(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	var names []string
	for _, f := range Run(t.Context(), conn, migrations.DefaultSchema, time.Minute) {
		require.NoError(t, f.Err, f.Name)
		if f.Count > 0 {
			require.NotEmpty(t, f.Example)
			t.Log(f.Promise, f.Example)
			names = append(names, f.Name)
		}
	}
	return names
}

func TestRunFindsEachKind(t *testing.T) {
	t.Parallel()
	_, conn := mixedRuns(t)
	require.Empty(t, wrong(t, conn), "an engine at work keeps its promises")
	for name, spoil := range map[string]string{
		"a ready task stands in a queue once":                           `update {schema}.tasks set state = 2 where state = 3`,
		"what sleeps, backs off or waits with a deadline has its timer": `delete from {schema}.durable_timers`,
		"a signal of an open run is delivered, or will be": `insert into {schema}.inbox (run_id, id, name, at, payload)
			select id, 'x', 'x', now(), '' from {schema}.workflow_runs where state = 3`,
		"a step that waited for a signal has taken one":     `update {schema}.tasks set traits = traits | 32 where state = 3`,
		"a step that waits for a child run has begun one":   `update {schema}.tasks set state = 6, traits = traits | 256 where state = 3`,
		"a step hears of the end of its child run, or will": `update {schema}.tasks set state = 6, child = gen_random_uuid() where state = 3`,
		"a child run hears that the step which began it was canceled, or will": `with t as (
				update {schema}.tasks set state = 13, finished_at = now() where state = 3 returning run_id, step
			)
			update {schema}.workflow_runs r set parent_run = t.run_id, parent_step = t.step, depth = 1, abandoned = false from t where r.id = t.run_id`,
		"a map that waits counts its elements": `update {schema}.tasks set state = 6, traits = traits | 1024 where state = 3`,
		"the items to come of a map that waits are there": `with t as (
				update {schema}.tasks set state = 6, traits = traits | 1024 where state = 3 returning run_id, step
			)
			insert into {schema}.maps select run_id, step, 1, 0, 1, 1, 0, 0, 0 from t`,
		"the entries of a machine have numbers of their own":     `update {schema}.tasks set entry = 5 where state = 3`,
		"a machine that waits has handled its entries":           `with t as (update {schema}.tasks set state = 6, traits = traits | 2048 where state = 3 returning run_id) update {schema}.workflow_runs r set signals = 1 from t where r.id = t.run_id`,
		"what a machine has started has a number of its own":     `update {schema}.tasks set traits = traits | 4096, name = 'a#1' where state = 3`,
		"a run counts its signals":                               `update {schema}.workflow_runs set signals = 1`,
		"a run that is not expanded is in the intake":            `update {schema}.workflow_runs set group_id = 0 where state = 3`,
		"a task whose parents have ended has begun":              `update {schema}.tasks set pending = 0 where state = 1`,
		"only what completed has an output":                      `update {schema}.tasks set output = 'x' where state = 3`,
		"what runs is held by a pod that is there, by a claim":   `update {schema}.tasks set epoch = epoch + 1 where state = 3`,
		"who holds a task is a pod that has not left":            `update {schema}.tasks set pod = 999 where state = 3`,
		"a task counts the parents that have not ended":          `update {schema}.tasks set pending = pending + 1 where state = 1`,
		"a run is terminal exactly when all of its tasks are":    `update {schema}.workflow_runs set state = 10, finished_at = now() where state = 3`,
		"a run counts its open ends":                             `update {schema}.workflow_runs set remaining = remaining + 1`,
		"the events of a task are gapless and lead to its state": `delete from {schema}.task_events where kind = 1`,
		"the events of a run are gapless":                        `insert into {schema}.task_events select * from {schema}.task_events where step = -1`,
		"a run belongs to the group of its tenant":               `update {schema}.tenants set group_id = group_id + 1`,
		"each queue has a frontier":                              `truncate {schema}.frontiers`,
		"tasks and queue rows belong to runs":                    `delete from {schema}.workflow_runs where state = 10`,
		"the runs in history are counted": `with s as (
				insert into {schema}.spans (class, since, until, kept_from, counted_to)
				values (0, now(), now(), now(), 'ffffffff-ffff-ffff-ffff-ffffffffffff') returning span
			)
			insert into {schema}.run_counts (tenant, day, definition, state, span, runs) select 'a', now(), 1, 10, s.span, 3 from s`,
		"a run is either at work or in history": `create table {schema}.run_history_0_all partition of {schema}.run_history_0 default;
			insert into {schema}.run_history (id, slice, first, class, plain, finished_at, definition, group_id, remaining, events, queue, state, slow, canceling,
				failing, unhandled, cut, handler_made, created_at, tenant)
			select id, 0, 0, 0, true, now(), definition, group_id, remaining, events, queue, state, slow, canceling, failing, unhandled, cut, handler_made, created_at, tenant
			from {schema}.workflow_runs`,
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), strings.ReplaceAll(spoil, "{schema}", migrations.DefaultSchema))
		require.NoError(t, err, name)
		require.Contains(t, wrongIn(t, tx), name)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// wrongIn returns the names of the queries that find something in a transaction
// that is rolled back: the engine never sees what it spoils.
func wrongIn(t *testing.T, tx pgx.Tx) []string {
	t.Helper()
	var names []string
	for _, q := range queries() {
		f := Finding{}
		require.NoError(t, look(t.Context(), tx, migrations.DefaultSchema, q.sql, &f), q.name)
		if f.Count > 0 {
			require.NotEmpty(t, f.Example)
			names = append(names, q.name)
		}
	}
	return names
}

// A query that would take too long, or wait, ends and says so; and reads only.
func TestRunIsPatientForSoLong(t *testing.T) {
	t.Parallel()
	pool, conn := mixedRuns(t)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), "lock table troupe.parked_tasks in access exclusive mode")
	require.NoError(t, err)
	begun := time.Now()
	findings := Run(t.Context(), conn, migrations.DefaultSchema, time.Minute)
	require.ErrorContains(t, findings[0].Err, "lock timeout")
	require.NoError(t, findings[len(findings)-1].Err)
	pgtest.Within(t, 20*time.Second, time.Since(begun), "an audit beside a lock")
}
