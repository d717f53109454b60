package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// Each rest takes twice as long as the one before, up to a bound, and is forgotten after
// a while.
func TestRestsGrowAndAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := New(slog.New(slog.NewTextHandler(&log, nil)))
		run := workflow.RunID{1}
		tasks := []workflow.TaskID{{Run: run}}
		for _, want := range []time.Duration{RestMin, 2 * RestMin, 4 * RestMin, RestMax, RestMax} {
			q.AddLocked(map[workflow.RunID]int32{run: 0})
			require.Equal(t, want, q.Again())
			resting, over := q.OfRuns(tasks)
			require.True(t, resting[run])
			require.Empty(t, over)
			require.Equal(t, pgsql.UUIDs{run}, q.Excluded().Runs)
			time.Sleep(want)
			resting, over = q.OfRuns(tasks)
			require.Empty(t, resting)
			require.Equal(t, tasks, over, "it is looked at before it is used")
			require.True(t, q.Skipping(), "locks are looked for after the rest")
		}
		require.Zero(t, q.Again())
		q.AddCounters([]int32{7})
		time.Sleep(RestMax + max(restKept, skipFor))
		require.False(t, q.Skipping())
		require.Empty(t, q.Excluded().Runs)
		require.Empty(t, q.runs, "it is forgotten")
		require.False(t, q.AnyCounters(), "the tenant, too")
		require.NoError(t, q.AddUnreadable(t.Context(), workflow.RunID{2}, errors.New("page lost")))
		require.Equal(t, RestMin, q.Again())
		require.False(t, q.Skipping(), "no lock is in the way")
		require.Contains(t, log.String(), "page lost")

		for range 3 {
			q.LockTimeout(t.Context())
		}
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("another session locks rows")))
	})
}

// A tenant rests as a whole once many of its runs are locked.
func TestManyLockedRunsHaveTheirTenantRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(nil)
		for i := range TenantRuns {
			require.Empty(t, q.Excluded().Tenants)
			q.AddLocked(map[workflow.RunID]int32{{byte(i)}: 7, {byte(i), 1}: 0})
		}
		require.Equal(t, []int64{7}, q.Excluded().Tenants)
		resting, over := q.LockedCounters([]int32{7})
		require.Empty(t, resting, "triggers need nothing that is locked")
		require.Empty(t, over)
		require.Empty(t, q.RestedTenants())
		time.Sleep(RestMin)
		require.Empty(t, q.Excluded().Tenants)
		require.Equal(t, []int32{7}, q.RestedTenants(), "its backlog is to be placed anew")
		q.Placed(7, false)
		require.Equal(t, []int64{7}, q.Excluded().Tenants, "until that is done")
		time.Sleep(AgainMin)
		q.Placed(7, true)
		require.Empty(t, q.RestedTenants())

		q.AddCounters([]int32{8})
		resting, _ = q.LockedCounters([]int32{7, 8})
		require.Equal(t, map[int32]bool{8: true}, resting)
		time.Sleep(RestMin)
		resting, over = q.LockedCounters([]int32{7, 8})
		require.Empty(t, resting)
		require.Equal(t, []int32{8}, over, "it is looked at before it is used")
		q.UnlockCounters(over)
		require.False(t, q.AnyCounters())
	})
}

// A run that is locked for long counts once for its tenant.
func TestAFewLockedRunsDoNotHaveTheirTenantRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(nil)
		few := map[workflow.RunID]int32{}
		for i := range TenantRuns - 1 {
			few[workflow.RunID{byte(i)}] = 7
		}
		for range 5 {
			q.AddLocked(few)
			require.Empty(t, q.Excluded().Tenants)
			time.Sleep(RestMax)
		}
		q.AddLocked(map[workflow.RunID]int32{{byte(TenantRuns)}: 7})
		require.Equal(t, []int64{7}, q.Excluded().Tenants)
	})
}

func TestTheQuarantineIsBounded(t *testing.T) {
	t.Parallel()
	q := New(nil)
	for i := range Max {
		require.NoError(t, q.AddUnreadable(t.Context(), workflow.RunID{1, byte(i), byte(i >> 8)}, nil))
	}
	err := q.AddUnreadable(t.Context(), workflow.RunID{2}, errors.New("page lost"))
	require.ErrorContains(t, err, fmt.Sprint("more than ", Max))
	require.ErrorContains(t, err, "page lost")
	q.AddLocked(map[workflow.RunID]int32{{2}: 0})
	require.Len(t, q.runs, Max)
}

// A definition rests until it is known to be there again.
func TestMissingDefinitionsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(nil)
		q.AddDefinition(t.Context(), 2)
		require.Empty(t, q.RestedDefinitions())
		time.Sleep(RestMin)
		require.Equal(t, []int32{2}, q.Excluded().Definitions)
		require.Equal(t, []int32{2}, q.RestedDefinitions())
		require.Empty(t, q.RestedDefinitions(), "not again at once")
		q.RemoveDefinitions([]*registry.Definition{{Number: 2}})
		require.Empty(t, q.Excluded().Definitions)
	})
}
