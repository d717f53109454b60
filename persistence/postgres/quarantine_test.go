package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// endRests ends the rest of all that is in quarantine, as time does.
func (k *fixture) endRests() { k.restUntil(time.Now()) }

// restUntil has all that rests do so until then.
func (k *fixture) restUntil(until time.Time) {
	q := k.store.quarantine
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.runs {
		r.until = until
	}
	for _, r := range q.tenants {
		r.until = until
	}
	for _, r := range q.definitions {
		r.until = until
	}
}

// quarantined returns how many runs were met for a reason.
func (k *fixture) quarantined(why reason) (count int) {
	q := k.store.quarantine
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.runs {
		if r.reason == why {
			count++
		}
	}
	return count
}

func TestBisectFindsCulprits(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for _, bad := range [][]int{nil, {0}, {9}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		var done, alone []int
		calls := 0
		err := pgsql.Bisect([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(items []int) error {
			calls++
			if slices.ContainsFunc(items, func(i int) bool { return slices.Contains(bad, i) }) {
				return refused
			}
			done = append(done, items...)
			return nil
		}, func(err error) bool { return errors.Is(err, refused) }, func(i int, err error) error {
			require.ErrorIs(t, err, refused)
			alone = append(alone, i)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, bad, alone)
		require.Len(t, done, 10-len(bad))
		require.LessOrEqual(t, calls, 1+2*4*max(len(bad), 1))
	}
	other := errors.New("other")
	require.ErrorIs(t, pgsql.Bisect([]int{1, 2}, func([]int) error { return other }, func(err error) bool { return !errors.Is(err, other) }, nil), other)
	require.NoError(t, pgsql.Bisect(nil, func(items []int) error { return nil }, func(error) bool { return true }, nil))
}

// Each rest takes twice as long as the one before, up to a bound, and is forgotten after
// a while.
func TestRestsGrowAndAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := newQuarantine(slog.New(slog.NewTextHandler(&log, nil)))
		run := workflow.RunID{1}
		tasks := taskIDs{{Run: run}}
		for _, want := range []time.Duration{restMin, 2 * restMin, 4 * restMin, restMax, restMax} {
			q.addLocked(map[workflow.RunID]int32{run: 0})
			require.Equal(t, want, q.again())
			resting, over := q.ofRuns(tasks)
			require.True(t, resting[run])
			require.Empty(t, over)
			require.Equal(t, pgsql.UUIDs{run}, q.excluded().runs)
			time.Sleep(want)
			resting, over = q.ofRuns(tasks)
			require.Empty(t, resting)
			require.Equal(t, tasks, over, "it is looked at before it is used")
			require.True(t, q.skipping(), "locks are looked for after the rest")
		}
		require.Zero(t, q.again())
		q.addCounters([]int32{7})
		time.Sleep(restMax + max(restKept, skipFor))
		require.False(t, q.skipping())
		require.Empty(t, q.excluded().runs)
		require.Empty(t, q.runs, "it is forgotten")
		require.False(t, q.anyCounters(), "the tenant, too")
		require.NoError(t, q.addUnreadable(t.Context(), workflow.RunID{2}, errors.New("page lost")))
		require.Equal(t, restMin, q.again())
		require.False(t, q.skipping(), "no lock is in the way")
		require.Contains(t, log.String(), "page lost")

		for range 3 {
			q.lockTimeout(t.Context())
		}
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("another session locks rows")))
	})
}

// A tenant rests as a whole once many of its runs are locked.
func TestManyLockedRunsHaveTheirTenantRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuarantine(nil)
		for i := range tenantRuns {
			require.Empty(t, q.excluded().tenants)
			q.addLocked(map[workflow.RunID]int32{{byte(i)}: 7, {byte(i), 1}: 0})
		}
		require.Equal(t, []int64{7}, q.excluded().tenants)
		resting, over := q.lockedCounters([]int32{7})
		require.Empty(t, resting, "triggers need nothing that is locked")
		require.Empty(t, over)
		require.Empty(t, q.restedTenants())
		time.Sleep(restMin)
		require.Empty(t, q.excluded().tenants)
		require.Equal(t, []int32{7}, q.restedTenants(), "its backlog is to be placed anew")
		q.placed(7, false)
		require.Equal(t, []int64{7}, q.excluded().tenants, "until that is done")
		time.Sleep(againMin)
		q.placed(7, true)
		require.Empty(t, q.restedTenants())

		q.addCounters([]int32{8})
		resting, _ = q.lockedCounters([]int32{7, 8})
		require.Equal(t, map[int32]bool{8: true}, resting)
		time.Sleep(restMin)
		resting, over = q.lockedCounters([]int32{7, 8})
		require.Empty(t, resting)
		require.Equal(t, []int32{8}, over, "it is looked at before it is used")
		q.unlockCounters(over)
		require.False(t, q.anyCounters())
	})
}

// A run that is locked for long counts once for its tenant.
func TestAFewLockedRunsDoNotHaveTheirTenantRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuarantine(nil)
		few := map[workflow.RunID]int32{}
		for i := range tenantRuns - 1 {
			few[workflow.RunID{byte(i)}] = 7
		}
		for range 5 {
			q.addLocked(few)
			require.Empty(t, q.excluded().tenants)
			time.Sleep(restMax)
		}
		q.addLocked(map[workflow.RunID]int32{{byte(tenantRuns)}: 7})
		require.Equal(t, []int64{7}, q.excluded().tenants)
	})
}

func TestTheQuarantineIsBounded(t *testing.T) {
	t.Parallel()
	q := newQuarantine(nil)
	for i := range quarantineMax {
		require.NoError(t, q.addUnreadable(t.Context(), workflow.RunID{1, byte(i), byte(i >> 8)}, nil))
	}
	err := q.addUnreadable(t.Context(), workflow.RunID{2}, errors.New("page lost"))
	require.ErrorContains(t, err, fmt.Sprint("more than ", quarantineMax))
	require.ErrorContains(t, err, "page lost")
	q.addLocked(map[workflow.RunID]int32{{2}: 0})
	require.Len(t, q.runs, quarantineMax)
}

// A definition rests until it is known to be there again.
func TestMissingDefinitionsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuarantine(nil)
		q.addDefinition(t.Context(), 2)
		require.Empty(t, q.restedDefinitions())
		time.Sleep(restMin)
		require.Equal(t, []int32{2}, q.excluded().definitions)
		require.Equal(t, []int32{2}, q.restedDefinitions())
		require.Empty(t, q.restedDefinitions(), "not again at once")
		q.removeDefinitions([]*registry.Definition{{Number: 2}})
		require.Empty(t, q.excluded().definitions)
	})
}
