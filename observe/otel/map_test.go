package otel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/observe/otel"
)

// The spans of the elements of a map have one name, and each its item.
func TestSpansOfElements(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	telemetry, err := otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans)), nil)
	require.NoError(t, err)
	next := func(context.Context) error { return nil }
	require.NoError(t, telemetry.Wrap(t.Context(), troupe.TaskInfo{Workflow: "ingest", Step: "files[17]", Item: 17}, next))
	require.NoError(t, telemetry.Wrap(t.Context(), troupe.TaskInfo{Workflow: "ingest", Step: "list", Item: -1}, next))
	ended := spans.Ended()
	require.Equal(t, "ingest/files", ended[0].Name())
	require.Contains(t, ended[0].Attributes(), attribute.String("troupe.step", "files"))
	require.Contains(t, ended[0].Attributes(), attribute.Int("troupe.item", 17))
	require.Equal(t, "ingest/list", ended[1].Name())
	for _, a := range ended[1].Attributes() {
		require.NotEqual(t, otel.AttributeItem, a.Key)
	}
}
