package memory_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

func open(t *testing.T, options memory.Options) (*memory.Store, *workflow.Graph) {
	t.Helper()
	options.Now = newClock().now
	store, graph := memory.New(options), storetest.Single()
	_, err := store.RegisterDefinitions(t.Context(), []*workflow.Graph{graph}, nil)
	require.NoError(t, err)
	return store, graph
}

func trigger(g *workflow.Graph, tenant string, n byte) persistence.Trigger {
	return persistence.Trigger{Run: workflow.RunID{15: n}, Definition: g.Hash, Workflow: g.Name, Tenant: tenant}
}

// join registers graphs and joins a pod. It returns the pod, and what makes its requests.
func join(t testing.TB, store persistence.Store, graphs ...*workflow.Graph) (int64, func(claim uint32, limit int) persistence.ClaimRequest) {
	t.Helper()
	numbers, err := store.RegisterDefinitions(t.Context(), graphs, nil)
	require.NoError(t, err)
	handlers := slices.Concat(numbers...)
	pod, _, err := store.JoinPod(t.Context(), persistence.PodInfo{Handlers: handlers, TTL: 1 << 60, Protocol: persistence.Protocol})
	require.NoError(t, err)
	return pod, func(claim uint32, limit int) persistence.ClaimRequest {
		var id persistence.ClaimID
		binary.BigEndian.PutUint32(id[:], claim)
		return persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{
			Pod: pod, Claim: id, Queues: []string{memory.DefaultQueue}, Limit: limit, Handlers: handlers,
		}}
	}
}

func TestTenantsAreBounded(t *testing.T) {
	t.Parallel()
	store, graph := open(t, memory.Options{TenantsMax: 2})
	out, err := store.TriggerRuns(t.Context(), []persistence.Trigger{
		trigger(graph, "a", 1), trigger(graph, "b", 2), trigger(graph, "c", 3), trigger(graph, "a", 4),
	}, persistence.GrantRequest{})
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, out.Answers[1].Result)
	require.Equal(t, persistence.TenantsFull, out.Answers[2].Result)
	require.ErrorIs(t, out.Answers[2].Err, persistence.ErrTenantsFull)
	require.Equal(t, persistence.Triggered, out.Answers[3].Result)
	require.Len(t, store.Snapshot().Runs, 3)
}

// A transaction checks the bound when it asks; the last group may be gone by
// the time it is drained. Its run waits for a retention that frees one.
func TestDrainLeavesTenantsOverTheBound(t *testing.T) {
	t.Parallel()
	store, graph := open(t, memory.Options{TenantsMax: 1})
	tx := store.Begin()
	answer, err := store.TriggerInTx(t.Context(), tx, trigger(graph, "late", 1))
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, answer.Result)
	_, err = store.TriggerRuns(t.Context(), []persistence.Trigger{trigger(graph, "early", 2)}, persistence.GrantRequest{})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	drained, err := store.DrainIntake(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, drained.Count)
	require.False(t, drained.More, "draining again at once would not help")
	require.Equal(t, []workflow.RunID{{15: 1}}, store.Snapshot().Intake)
}

func TestTransactionsEndOnce(t *testing.T) {
	t.Parallel()
	store, graph := open(t, memory.Options{})
	tx := store.Begin()
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, tx.Commit(), memory.ErrTxDone)
	require.ErrorIs(t, tx.Rollback(), memory.ErrTxDone)
	_, err := store.TriggerInTx(t.Context(), tx, trigger(graph, "a", 1))
	require.ErrorIs(t, err, memory.ErrTxDone)
	other, _ := open(t, memory.Options{})
	_, err = other.TriggerInTx(t.Context(), store.Begin(), trigger(graph, "a", 1))
	require.Error(t, err)
	_, err = store.TriggerInTx(t.Context(), "not a transaction", trigger(graph, "a", 1))
	require.Error(t, err)
}

// What the caller does with its slices and maps afterwards does not reach the
// store, nor what readers do with theirs.
func TestPayloadsAreCopied(t *testing.T) {
	t.Parallel()
	store, graph := open(t, memory.Options{})
	asked := trigger(graph, "a", 1)
	asked.Input, asked.Labels = []byte("input"), map[string]string{"k": "v"}
	_, err := store.TriggerRuns(t.Context(), []persistence.Trigger{asked}, persistence.GrantRequest{})
	require.NoError(t, err)
	asked.Input[0], asked.Labels["k"] = 'X', "changed"
	id := workflow.TaskID{Run: asked.Run, Step: -1}
	for range 2 {
		input, err := persistence.Payload(t.Context(), store, id)
		require.NoError(t, err)
		require.Equal(t, "input", string(input))
		input[0] = 'Y'
	}
	row, err := store.Run(t.Context(), "a", asked.Run)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, row.Labels)
}

// BenchmarkDiamond runs four-step diamonds through the store, as fast as one
// pod of ten slots can.
func BenchmarkDiamond(b *testing.B) {
	graph := storetest.Diamond()
	store := memory.New(memory.Options{Now: newClock().now})
	ctx := b.Context()
	pod, request := join(b, store, graph)
	claims := uint32(0)
	for run := 0; b.Loop(); run++ {
		t := trigger(graph, "a", 0)
		t.Run = workflow.RunID{0: byte(run >> 24), 1: byte(run >> 16), 2: byte(run >> 8), 3: byte(run)}
		_, _ = store.TriggerRuns(ctx, []persistence.Trigger{t}, persistence.GrantRequest{})
		for {
			claims++
			claimed, _ := store.ClaimTasks(ctx, request(claims, 10))
			if len(claimed.Grants) == 0 {
				break
			}
			var record persistence.Record
			record.Pod = pod
			for _, g := range claimed.Grants {
				record.Transitions = append(record.Transitions, persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: 1})
			}
			_, _ = store.RecordTransitions(ctx, record)
			_, _ = store.RenewPod(ctx, persistence.Renewal{Pod: pod, TTL: 1 << 60})
		}
	}
}
