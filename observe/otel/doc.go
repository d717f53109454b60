// Package otel connects an engine with OpenTelemetry: each attempt of a step is a span that
// is linked to the trigger of its run, and the engine's metrics go to a Meter.
//
//	telemetry, err := otel.New(tracers, meters)
//	if err != nil {
//		return err
//	}
//	engine, err := troupe.New(pool, troupe.Config{
//		Wrap:         telemetry.Wrap,
//		TraceContext: telemetry.TraceContext,
//		Metrics:      telemetry.Metrics(),
//	})
//
// It uses the API of OpenTelemetry only: the SDK, with its sampler and its exporters, is the
// embedder's. docs/tracing.md says what the spans are good for.
package otel
