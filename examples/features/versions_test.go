package features_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/troupetest"
)

// letter is a workflow in two versions: the second writes other words, tries
// again, and has a step more.
func letter(version int) *troupe.Workflow[string, string] {
	write := func(_ context.Context, to string) (string, error) {
		return []string{"", "Hi ", "Dear "}[version] + to, nil
	}
	return troupe.Define("letter", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		rest := troupe.Sleep(b, "rest", time.Second)
		if version == 1 {
			return troupe.Step0(b, "write", write, troupe.After(rest))
		}
		troupe.Step0(b, "stamp", func(context.Context, string) (bool, error) { return true, nil })
		return troupe.Step0(b, "write", write, troupe.After(rest), troupe.Retry{Attempts: 3})
	})
}

// A run keeps the graph that it began with. Its steps are executed by any pod
// that has one of the same name, parents and types: here by the next version,
// which was deployed while the run slept.
func TestTheNextVersionEndsRunsOfTheLast(t *testing.T) {
	pool, schema := database(t)
	engine := troupetest.Engine(t, pool, troupe.Config{Schema: schema})
	next := troupetest.Register(t, engine, letter(2))
	troupetest.Start(t, engine)

	last := troupetest.Engine(t, pool, troupe.Config{Schema: schema})
	handle := troupetest.Register(t, last, letter(1))
	troupetest.Start(t, last)
	run, err := handle.RunNoWait(t.Context(), "Ada")
	require.NoError(t, err)
	require.NoError(t, last.Stop(t.Context()))

	got := next.Get("", run.ID())
	require.Equal(t, "Dear Ada", troupetest.Await(t, got))
	status, err := got.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Steps, 2, "without the step that is new")
}
