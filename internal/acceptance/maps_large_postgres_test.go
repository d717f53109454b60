package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// The largest map there is: its run ends with all results in order, is archived, and every element
// is read by page before and afterwards.
func TestTheLargestMapIsArchivedAndRead(t *testing.T) {
	t.Parallel()
	pgtest.FullOnly(t, "a map of 100,000 elements takes a minute, and its run is archived a minute later")
	const items = 100_000
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	_, handle := joined(t, pool, troupe.Config{Slots: 1000}, troupe.Define("largest", func(b *troupe.Builder[int]) troupe.StepRef[[]int] {
		list := troupe.Step0(b, "list", list)
		return troupe.Map(b, "each", list, func(_ context.Context, _, item int) (int, error) { return item / 10, nil }, troupe.MaxConcurrency(1000))
	}))
	run, err := handle.RunNoWait(t.Context(), items)
	require.NoError(t, err)
	began := time.Now()
	results, err := run.Await(t.Context())
	require.NoError(t, err)
	t.Logf("the run took %v", time.Since(began).Round(time.Second))
	require.Len(t, results, items)
	for i, got := range results {
		require.Equal(t, i, got)
	}
	whole := func(when string) {
		seen, pages, longest := make([]bool, items), 0, time.Duration(0)
		for filter := (troupe.ElementFilter{}); ; pages++ {
			began := time.Now()
			page, err := run.Elements(t.Context(), "each", filter)
			require.NoError(t, err)
			longest = max(longest, time.Since(began))
			require.Equal(t, troupe.MapStatus{Items: items, Completed: items}, page.Map)
			for i := range page.Elements {
				e := &page.Elements[i]
				require.False(t, seen[e.Item], e.Name)
				seen[e.Item] = true
				require.Equal(t, troupe.StateCompleted, e.State)
			}
			if filter.After = page.Next; page.Next == 0 {
				break
			}
		}
		require.NotContains(t, seen, false)
		began := time.Now()
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.StateCompleted, status.State)
		took := time.Since(began)
		began = time.Now()
		again, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, results, again)
		t.Logf("%s: %d pages, the slowest took %v; the status %v, the output %v", when, pages+1, longest, took, time.Since(began))
	}
	whole("before")
	began = time.Now()
	require.Eventually(t, func() bool {
		var archived bool
		err := pool.QueryRow(t.Context(), `select exists (select from troupe.run_history where id = $1)
			and not exists (select from troupe.workflow_runs where id = $1)`, run.ID()).Scan(&archived)
		return err == nil && archived
	}, 5*time.Minute, 100*time.Millisecond, "the run is archived")
	t.Logf("archived after %v", time.Since(began).Round(time.Second))
	whole("archived")
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `select (select count(*) from troupe.tasks) + (select count(*) from troupe.map_items) + (select count(*) from troupe.maps)`).Scan(&left))
	require.Zero(t, left, "rows that stay in the tables of open runs")
}
