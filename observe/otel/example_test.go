package otel_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/observe/otel"
)

// Each attempt of a step is a span in the trace of the caller who triggered its run. A program of
// yours has an exporter that sends spans somewhere.
func Example() {
	exporter := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	telemetry, err := otel.New(tracers, nil)
	if err != nil {
		panic(err)
	}
	engine, err := troupe.NewInMemory(troupe.Config{Wrap: telemetry.Wrap, TraceContext: telemetry.TraceContext})
	if err != nil {
		panic(err)
	}
	greet, err := troupe.Register(engine, troupe.Define("greet", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "hello", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	}))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := engine.Start(ctx); err != nil {
		panic(err)
	}
	ctx, span := tracers.Tracer("shop").Start(ctx, "POST /greetings")
	text, err := greet.Run(ctx, "world")
	span.End()
	fmt.Println(text, err)
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, s.SpanContext.TraceID() == span.SpanContext().TraceID())
	}
	_ = engine.Stop(context.Background())
	// Output:
	// hello world <nil>
	// greet/hello true
	// POST /greetings true
}
