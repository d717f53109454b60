package postgres

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/workflow"
)

// Every step of a workflow has a handler of its own, so a wide fan-out compares
// as many children with as many handlers: what that costs must not be their
// product. It is compared with a pod that has two handlers.
func TestAFanOutToManyHandlersIsRecordedInTime(t *testing.T) {
	pgtest.FullOnly(t, "what it measures depends on the load of the machine")
	const width = 50_000
	def := workflow.Definition{Name: "wide", InputType: "int", Policy: workflow.FailFast, Steps: make([]workflow.Step, width+1)}
	for i := range def.Steps {
		def.Steps[i] = workflow.Step{Name: "s" + strconv.Itoa(i), Kind: workflow.Func, Type: "f"}
		if i > 0 {
			def.Steps[i].Parents = []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}
		}
	}
	graph, err := workflow.NewGraph(&def)
	require.NoError(t, err)
	k, pod := withPod(t, graph)
	took := func(handlers []int32) time.Duration {
		t.Helper()
		k.start(graph, "t", 1)
		request := k.request(pod, 1)
		request.Handlers = k.handlers[:1]
		claimed, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		require.Len(t, claimed.Grants, 1)
		record := k.completion(pod, claimed.Grants...)
		record.Limit, record.Handlers, record.Queues = 1, handlers, []string{request.Queue()}
		begun := time.Now()
		recorded, err := k.store.RecordTransitions(k.ctx, record)
		require.NoError(t, err)
		require.Len(t, recorded.Grants, 1)
		return time.Since(begun)
	}
	few, many := time.Hour, time.Hour
	for range 2 {
		few, many = min(few, took(k.handlers[:2])), min(many, took(k.handlers))
	}
	require.Less(t, many, 3*few, "compared one by one, five times as long and more")
}
