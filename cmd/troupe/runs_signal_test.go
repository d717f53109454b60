package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// refundsWorkflow waits for the signal "approved", whose value is the output.
func refundsWorkflow() *troupe.Workflow[string, string] {
	return troupe.Define("refunds", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.WaitSignal(b, "approve", troupe.NewSignal[string]("approved"), troupe.FailAfter(72*time.Hour))
	})
}

// A signal from the command: what it prints, and with which code it ends; and what other
// commands show of a step that waits.
func TestRunsSignal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	engine, err := troupe.New(s.pool, troupe.Config{PodName: "desk"})
	require.NoError(t, err)
	refunds, err := troupe.Register(engine, refundsWorkflow())
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	one, err := refunds.RunNoWait(t.Context(), "r-1", troupe.Tenant("acme"), troupe.Key("r-1"))
	require.NoError(t, err)
	id := one.ID().String()

	shown := s.does("runs", "show", id)
	require.Contains(t, shown, `waits for the signal "approved" since `)
	require.Contains(t, shown, "troupe runs signal "+id+" approved JSON sends it")
	require.Contains(t, s.does("explain", id), `approve: waits for the signal "approved"`)
	require.Contains(t, s.does("workflows", "show", "refunds"), "signal approved, failed after 72h0m0s")

	require.Contains(t, s.refuses(exitNotFound, "runs", "signal", id, "aproved"), `no step of the run waits for "aproved", only for approved`)
	require.Contains(t, s.refuses(exitNotFound, "runs", "signal", id, "approved", "--tenant", "other"), `no run `+id+` of tenant "other"`)
	require.Contains(t, s.refuses(exitNotFound, "runs", "signal", "--workflow", "refunds", "--key", "r-2", "--tenant", "acme", "approved"), `has the key "r-2"`)

	require.Contains(t, s.refuses(exitUsage, "runs", "signal", id, "approved", ""), "the value is empty")

	for _, before := range [][]string{{id}, {"--workflow", "refunds", "--key", "r-1"}} {
		var names strings.Builder
		require.Zero(t, run(append(append([]string{"__complete", "runs", "signal"}, before...), "app"), world{
			environ: s.environ, in: strings.NewReader(""), out: &names, err: io.Discard, completing: time.Minute,
		}))
		require.True(t, strings.HasPrefix(names.String(), "approved\n"), names.String())
	}

	var said signaledJSON
	s.decodes(&said, "runs", "signal", "--workflow", "refunds", "--key", "r-1", "--tenant", "acme", "approved", ` "ann" `, "--id", "evt", "--json")
	require.Equal(t, signaledJSON{Run: id}, said)
	out, err := one.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ann", out)
	require.Equal(t, "signal approved: run "+id+" has one of this id, and nothing was sent\n", s.does("runs", "signal", id, "approved", "--id", "evt"))
	require.Contains(t, s.refuses(exitFailed, "runs", "signal", id, "approved"), "signal refused (run_ended)")

	two, err := refunds.RunNoWait(t.Context(), "r-2")
	require.NoError(t, err)
	code, text, problem := piped(`"bob"`, s.environ, "runs", "signal", two.ID().String(), "approved", "-")
	require.Zero(t, code, problem)
	require.Equal(t, "signal approved is sent to run "+two.ID().String()+"\n", text)
	out, err = two.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bob", out)
	require.Regexp(t, `approve +waiting +until [^,]+, signal approved\n`, s.does("runs", "events", id))
	require.Regexp(t, `the run +signaled +signal approved\n`, s.does("runs", "events", id))
}

// The form of a step in JSON.
func TestAWaitOfAStoredWorkflowInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(stepsOf([]troupe.WorkflowStep{
		{Name: "approve", Signal: "approved", Deadline: time.Minute, SkipsLate: true}, {Name: "remind", Signal: "reminded"},
	}))
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"name": "approve", "parents": [], "queue": null, "handler": null, "sleeps": false, "sleep_ms": null,
			"signal": "approved", "deadline_ms": 60000, "skips_late": true, "child": null, "map": false, "on_failure": false},
		{"name": "remind", "parents": [], "queue": null, "handler": null, "sleeps": false, "sleep_ms": null,
			"signal": "reminded", "deadline_ms": null, "skips_late": false, "child": null, "map": false, "on_failure": false}]`, string(text))
	require.Equal(t, "signal reminded", kindText(stepsOf([]troupe.WorkflowStep{{Signal: "reminded"}})[0]))
}
