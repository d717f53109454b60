package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// The backlog of a tenant that was locked takes turns with the tasks of others after the
// release. It is not served before all of them.
func TestALockedBacklogComesBackBehindTheFrontier(t *testing.T) {
	t.Parallel()
	store, graph := open(t, memory.Options{})
	_, request := join(t, store, graph)
	run := byte(0)
	start := func(tenant string, n int) {
		for range n {
			run++
			_, err := store.TriggerRuns(t.Context(), []persistence.Trigger{trigger(graph, tenant, run)}, persistence.GrantRequest{})
			require.NoError(t, err)
		}
	}
	claim := func(limit int) (tenants string, again time.Duration) {
		run++
		out, err := store.ClaimTasks(t.Context(), request(uint32(run), limit))
		require.NoError(t, err)
		for i := range out.Grants {
			tenants += out.Grants[i].Tenant
		}
		return tenants, out.Again
	}
	start("b", 3)
	start("a", 6)
	store.Block(memory.Blocked{Tenant: "b"})
	granted, again := claim(4)
	require.Equal(t, "aaaa", granted)
	require.Positive(t, again)
	store.Unblock(memory.Blocked{Tenant: "b"})
	granted, again = claim(4)
	require.Len(t, granted, 4)
	require.Contains(t, granted[:2], "a", "they take turns")
	require.Zero(t, again)
	granted, _ = claim(10)
	require.Equal(t, "b", granted)
}
