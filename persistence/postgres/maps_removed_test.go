package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// spreads begins n elements of the map of a new run, and claims as many of them as are open.
func (k *fixture) spreads(pod int64, n int, window int32) (workflow.RunID, []persistence.Grant) {
	k.t.Helper()
	run, begin := k.spread(pod, storetest.Mapped(), n, window, 0)
	require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(begin))
	return run, k.claim(pod, int(window))
}

// Rows that a map needs were removed by hand: its run rests, with an error that says so, and others,
// which are recorded with it, go on.
func TestAMapWhoseRowsWereRemovedStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]string{
		"map": "maps where run_id = $1", "items": "map_items where run_id = $1", "task": "tasks where run_id = $1 and step = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(openDatabase(t, Options{}), storetest.Mapped())
			pod := k.join(time.Hour)
			run, grants := k.spreads(pod, 5, 3)
			other, more := k.spreads(pod, 5, 3)
			k.exec("delete from {schema}."+removed, [16]byte(run))
			answers := k.send(k.completion(pod, append(grants[:1:1], more...)...))
			require.Equal(t, []lifecycle.Answer{lifecycle.Busy, lifecycle.Moved, lifecycle.Moved, lifecycle.Moved}, answers)
			k.finish(pod)
			require.Equal(t, lifecycle.Completed, k.state(other))
			require.Equal(t, lifecycle.Running, k.state(run))
		})
	}
}
