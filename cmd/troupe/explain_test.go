package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// asleep returns a database with a sleeping run of a tenant, and no pods.
func asleep(t *testing.T) (url string, run troupe.RunID) {
	t.Helper()
	url = pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		window := troupe.Sleep(b, "fraud-window", 4*time.Hour)
		return troupe.Step0(b, "ship", func(_ context.Context, in string) (string, error) { return in, nil }, troupe.After(window))
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	started, err := handle.RunNoWait(t.Context(), "x", troupe.Tenant("acme"))
	require.NoError(t, err)
	require.NoError(t, engine.Stop(t.Context()))
	return url, started.ID()
}

func TestExplainPrintsALineForEachStep(t *testing.T) {
	t.Parallel()
	url, run := asleep(t)
	environ := []string{"TROUPE_DATABASE_URL=" + url}
	code, out, problem := call(environ, "explain", run.String())
	require.Zero(t, code, problem)
	require.Regexp(t, `^fraud-window: sleeps, fires in 3 h 59 m\nship: waits for fraud-window, which sleeps, fires in 3 h 59 m\n$`, out)

	code, out, problem = call(environ, "explain", "--json", "--tenant", "acme", run.String())
	require.Zero(t, code, problem)
	var reasons []explain.Reason
	require.NoError(t, json.Unmarshal([]byte(out), &reasons))
	require.Len(t, reasons, 2)
	require.Equal(t, explain.CauseSleeping, reasons[0].Cause)
	require.Equal(t, []string{"fraud-window"}, reasons[1].On)

	code, _, problem = call(environ, "explain", "--tenant", "other", run.String())
	require.Equal(t, exitNotFound, code)
	require.Contains(t, problem, "it may be another tenant's")
	for _, args := range [][]string{{"explain"}, {"explain", "x"}, {"explain", run.String(), run.String()}, {"explain", run.String(), "--tenant", ""}} {
		code, _, problem = call(environ, args...)
		require.Equal(t, exitUsage, code, problem)
		require.Equal(t, 1, strings.Count(problem, "\n"), problem)
	}
}

// explain does not know the limit of tenants, and says that it may be why a task waits.
func TestExplainKnowsNoTenantLimit(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{TenantLimit: 1})
	require.NoError(t, err)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	handle, err := troupe.Register(engine, troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "ship", func(_ context.Context, in string) (string, error) {
			begun <- struct{}{}
			<-release
			return in, nil
		})
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	t.Cleanup(func() { close(release) })
	_, err = handle.RunNoWait(t.Context(), "x", troupe.Tenant("acme"))
	require.NoError(t, err)
	<-begun
	waits, err := handle.RunNoWait(t.Context(), "x", troupe.Tenant("acme"))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "update troupe.tasks set queued_at = queued_at - interval '1 minute' where run_id = $1", [16]byte(waits.ID()))
	require.NoError(t, err)
	environ := []string{"TROUPE_DATABASE_URL=" + url}
	for limit, want := range map[string]string{"": "or its tenant is at TenantLimit: set TROUPE_TENANT_LIMIT", "TROUPE_TENANT_LIMIT=1": "its tenant runs 1 tasks and may run 1"} {
		code, out, problem := call(append(environ, limit), "explain", waits.ID().String())
		require.Zero(t, code, problem)
		require.Contains(t, out, want)
	}
	_, out, _ := call(append(environ, "TROUPE_TENANT_LIMIT=0"), "explain", waits.ID().String())
	require.NotContains(t, out, "TROUPE_TENANT_LIMIT", "it is known that there is none")
}

// What doctor and migrate say of tables that are not what the program knows is
// what explain says.
func TestExplainLooksAtTheSchemaFirst(t *testing.T) {
	t.Parallel()
	const run = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	url := pgtest.Database(t)
	explains := func(want int, environ []string, wants ...string) {
		t.Helper()
		code, out, problem := call(environ, "explain", run)
		require.Equal(t, want, code, out)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(problem, "\n"), problem)
		for _, want := range wants {
			require.Contains(t, problem, want)
		}
	}
	environ := []string{"TROUPE_DATABASE_URL=" + url}
	explains(exitFailed, environ, "schema troupe does not exist in that database: name another with --schema or TROUPE_SCHEMA, or run troupe migrate up")

	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	explains(exitNotFound, environ, "no run "+run+" in schema troupe of that database")

	reads, role := reader(t, pool)
	explains(exitNotFound, reads, "no run "+run) // to read is enough
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("revoke select on all tables in schema troupe from " + role)
	exec("grant select on troupe.schema_version to " + role)
	explains(exitFailed, reads, "the role lacks a right: ", `let the owner of the schema run: grant usage on schema "troupe" to "`+role, `; grant select on all tables in schema "troupe" to "`+role)
	exec("revoke usage on schema troupe from " + role)
	explains(exitFailed, reads, "the role lacks a right: ", "permission denied for schema troupe", `grant usage on schema "troupe" to "`+role)

	exec("insert into troupe.schema_version (version, name) values (9999, 'later')")
	explains(exitFailed, environ, "the schema is newer than this program", "upgrade the program")
}

// B23: names and errors of others move no cursor.
func TestB23NothingThatIsPrintedIsObeyed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	nasty := explain.Reason{Step: "a\x1b[2J", Cause: explain.CauseBackoff, Text: "x\r\ny\u009b31m\u202e"}
	require.NoError(t, printReasons(&out, []explain.Reason{nasty}, false))
	require.Equal(t, `a\u001b[2J: x\u000d\u000ay\u009b31m\u202e`+"\n", out.String())
	out.Reset()
	require.NoError(t, printReasons(&out, []explain.Reason{nasty}, true))
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\u009b")
	var back []explain.Reason
	require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	require.Equal(t, nasty, back[0])
}
