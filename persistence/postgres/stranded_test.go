package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A run that cannot end, because its rows or its tasks were changed by hand, is ended by a
// cancel, also by a repeated one. Explain says so.
func TestACancelEndsARunThatNothingElseEnds(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single(), storetest.Chain(3))
	cancel := persistence.Cancel{By: "test", Grace: time.Minute}
	for name, c := range map[string]struct {
		spoil string
		again bool
	}{
		"no task is open":                   {"update {schema}.workflow_runs set state = 3, remaining = 1, finished_at = null", false},
		"no task is open, canceled before":  {"update {schema}.workflow_runs set state = 3, remaining = 1, finished_at = null, canceling = true, slow = true", true},
		"a task waits for what ended":       {"update {schema}.workflow_runs set state = 3, remaining = 1, finished_at = null; update {schema}.tasks set state = 1, finished_at = null, output = null where step = 2", false},
		"its tasks were removed":            {"update {schema}.workflow_runs set state = 3, remaining = 1, finished_at = null; delete from {schema}.tasks", false},
		"a task waits, and canceled before": {"update {schema}.workflow_runs set state = 3, remaining = 1, finished_at = null, canceling = true, slow = true; update {schema}.tasks set state = 1, finished_at = null, output = null where step = 2", true},
	} {
		k.exec("delete from {schema}.tasks; delete from {schema}.workflow_runs")
		cancel.Run = k.start(storetest.Chain(3), "a", 1)[0]
		k.finish(pod)
		require.Equal(t, lifecycle.Completed, k.state(cancel.Run))
		k.exec(c.spoil)
		require.Contains(t, k.why(cancel.Run).Remedy, "canceling the run ends it", name)
		out, err := k.store.CancelRun(k.ctx, cancel)
		require.NoError(t, err, name)
		want := lifecycle.Moved
		if c.again {
			want = lifecycle.AlreadyYours
		}
		require.Equal(t, want, out.Result, name)
		require.Equal(t, lifecycle.Canceled, out.State, name)
		require.Equal(t, lifecycle.Canceled, k.state(cancel.Run), name)
	}
}
