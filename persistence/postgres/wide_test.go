package postgres

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Every step of a workflow has a handler of its own, so a wide fan-out compares
// as many children with as many handlers: what that costs must not be their
// product.
func TestAFanOutToManyHandlersIsRecordedInTime(t *testing.T) {
	t.Parallel()
	const width = 50_000
	d := openDatabase(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	def := workflow.Definition{Name: "wide", InputType: "int", Policy: workflow.FailFast, Steps: make([]workflow.Step, width+1)}
	for i := range def.Steps {
		def.Steps[i] = workflow.Step{Name: "s" + strconv.Itoa(i), Kind: workflow.Func, Type: "f"}
		if i > 0 {
			def.Steps[i].Parents = []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}
		}
	}
	graph, err := workflow.NewGraph(&def)
	require.NoError(t, err)
	numbers, err := d.store.RegisterDefinitions(ctx, []*workflow.Graph{graph}, []string{"default"})
	require.NoError(t, err)
	pod, _, err := d.store.JoinPod(ctx, persistence.PodInfo{
		Name: "p", TTL: time.Hour, Queues: []string{"default"}, Handlers: numbers[0],
	})
	require.NoError(t, err)
	_, err = d.store.TriggerRuns(ctx, []persistence.Trigger{{
		Run: workflow.RunID{1}, Definition: graph.Hash, Workflow: "wide", Tenant: "t", Input: []byte("1"),
	}}, persistence.Taking{})
	require.NoError(t, err)
	claimed, err := d.store.ClaimTasks(ctx, persistence.ClaimRequest{
		Pod: pod, Claim: persistence.ClaimID{1}, Queue: "default", Limit: 1, Handlers: numbers[0],
	})
	require.NoError(t, err)
	require.Len(t, claimed.Grants, 1)

	begun := time.Now()
	recorded, err := d.store.RecordTransitions(ctx, persistence.Record{
		Pod: pod, Claim: persistence.ClaimID{2}, InlineLimit: 1, InlineHandlers: numbers[0], InlineQueues: []string{"default"},
		Transitions: []persistence.Transition{{
			Task: claimed.Grants[0].Task, Epoch: claimed.Grants[0].Epoch, Report: lifecycle.Succeeded, Output: []byte("1"),
		}},
	})
	require.NoError(t, err)
	require.Len(t, recorded.Grants, 1)
	require.Less(t, time.Since(begun), 6*time.Second, "it takes one or two; compared one by one, eight and more")
}
