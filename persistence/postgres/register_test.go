package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Pods that start together with hundreds of new definitions take turns, however slow the
// server is: each holds the others up for a few of them. A session that holds the lock for
// longer than calls wait for locks usually is one of them.
func TestPodsThatRegisterTakeTurns(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	var graphs []*workflow.Graph
	for i := range 3*registry.RegisterBatch + 1 {
		graphs = append(graphs, storetest.Graph(workflow.Definition{Name: fmt.Sprintf("many%d", i), Steps: []workflow.Step{{Name: "a"}}}))
	}
	release := k.hold("select pg_advisory_xact_lock($1)", k.store.LockKey("catalog"))
	registered := make(chan error, 3)
	numbers := make([][][]int32, 3)
	for pod := range numbers {
		go func() {
			var err error
			numbers[pod], err = k.store.RegisterDefinitions(k.ctx, graphs, []string{fmt.Sprintf("queue%d", pod)})
			registered <- err
		}()
	}
	require.Eventually(t, func() bool {
		return value[bool](k.database, "select count(*) >= 2 from pg_locks where not granted and locktype = 'advisory' and clock_timestamp() - waitstart > interval '2.1 s'")
	}, 30*time.Second, 50*time.Millisecond)
	require.Empty(t, registered)
	release()
	for range numbers {
		require.NoError(t, <-registered)
	}
	require.Len(t, numbers[0], len(graphs))
	require.Equal(t, numbers[0], numbers[1])
	require.Equal(t, numbers[0], numbers[2])
	require.Equal(t, len(graphs), value[int](k.database, "select count(*)::int from {schema}.workflow_definitions where name like 'many%'"))
}

// A queue that another process registered later is found by its number.
func TestAQueueOfAnotherProcess(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	other := k.starts().store
	_, err := other.RegisterDefinitions(k.ctx, nil, []string{"later"})
	require.NoError(t, err)
	name, err := k.store.NameQueue(k.ctx, k.store.Conns, other.Catalog.QueueNumber("later"))
	require.NoError(t, err)
	require.Equal(t, "later", name)
}
