package otel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/observe/otel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tracing keeps the spans of a test in memory.
type tracing struct {
	exporter  *tracetest.InMemoryExporter
	provider  *sdktrace.TracerProvider
	telemetry *otel.Telemetry
}

func newTracing(t *testing.T) *tracing {
	t.Helper()
	tr := &tracing{exporter: tracetest.NewInMemoryExporter()}
	tr.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(tr.exporter))
	var err error
	tr.telemetry, err = otel.New(tr.provider, nil)
	require.NoError(t, err)
	return tr
}

func (tr *tracing) config() troupe.Config {
	return troupe.Config{Wrap: tr.telemetry.Wrap, TraceContext: tr.telemetry.TraceContext, StopGrace: 24 * time.Hour}
}

// span is a span of the embedder's.
func (tr *tracing) span(t *testing.T, name string) (context.Context, trace.SpanContext) {
	t.Helper()
	ctx, span := tr.provider.Tracer("embedder").Start(t.Context(), name)
	span.End()
	return ctx, span.SpanContext()
}

// attempts returns the spans of attempts in the order in which they ended, and forgets them.
func (tr *tracing) attempts() tracetest.SpanStubs {
	spans := slices.DeleteFunc(tr.exporter.GetSpans(), func(s tracetest.SpanStub) bool {
		return s.InstrumentationScope.Name != "github.com/troupe-dev/troupe/observe/otel"
	})
	tr.exporter.Reset()
	return spans
}

func values(s tracetest.SpanStub) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	for _, a := range s.Attributes {
		m[a.Key] = a.Value.AsInterface()
	}
	return m
}

// requireLinked checks that a span is linked to another one, and is its child or not.
func requireLinked(t *testing.T, to trace.SpanContext, child bool, s tracetest.SpanStub) {
	t.Helper()
	require.Len(t, s.Links, 1)
	require.Equal(t, to.SpanID(), s.Links[0].SpanContext.SpanID())
	require.Equal(t, to.TraceID(), s.Links[0].SpanContext.TraceID())
	require.Equal(t, child, s.SpanContext.TraceID() == to.TraceID())
	require.Equal(t, child, s.Parent.IsValid())
}

// run runs a workflow of one step in memory, in virtual time.
func run[O any](
	t *testing.T, fn func(context.Context, string) (O, error), test func(t *testing.T, tr *tracing, engine *troupe.Engine, handle *troupe.Handle[string, O]),
	options ...troupe.StepOption,
) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTracing(t)
		engine, err := troupe.NewInMemory(tr.config())
		require.NoError(t, err)
		test(t, tr, engine, start(t, engine, fn, options...))
	})
}

func start[O any](t *testing.T, engine *troupe.Engine, fn func(context.Context, string) (O, error), options ...troupe.StepOption) *troupe.Handle[string, O] {
	t.Helper()
	handle, err := troupe.Register(engine, troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[O] {
		return troupe.Step0(b, "charge", fn, options...)
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.WithoutCancel(t.Context())) })
	return handle
}

// TestAnAttemptIsASpanOfItsTrigger: the attempts of the first minute are in the trace of the
// trigger, later ones have traces of their own; all are linked to it.
func TestAnAttemptIsASpanOfItsTrigger(t *testing.T) {
	fails := func(context.Context, string) (int, error) {
		time.Sleep(3 * time.Second)
		return 0, troupe.Class("downstream", errors.New("busy"))
	}
	run(t, fails, func(t *testing.T, tr *tracing, _ *troupe.Engine, handle *troupe.Handle[string, int]) {
		ctx, trigger := tr.span(t, "POST /orders")
		started, err := handle.RunNoWait(ctx, "", troupe.Tenant("acme"))
		require.NoError(t, err)
		_, err = started.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		spans := tr.attempts()
		require.Len(t, spans, 3)
		for i, s := range spans {
			requireLinked(t, trigger, i < 2, s) // begun after 0, 33 and 96 seconds
			require.Equal(t, "orders/charge", s.Name)
			require.Equal(t, trace.SpanKindConsumer, s.SpanKind)
			require.Equal(t, 3*time.Second, s.EndTime.Sub(s.StartTime))
			require.Equal(t, codes.Error, s.Status.Code)
			require.Equal(t, "busy", s.Status.Description)
			require.Equal(t, map[attribute.Key]any{
				"troupe.run_id": started.ID().String(), "troupe.workflow": "orders", "troupe.step": "charge", "troupe.tenant": "acme",
				"troupe.attempt": int64(i + 1), "troupe.queue_wait": 0.0, "troupe.outcome": "errored", "error.type": "downstream",
			}, values(s))
		}
	}, troupe.Retry{Attempts: 3, First: 30 * time.Second, Factor: 2, Jitter: -1})
}

// TestARunWithoutATraceHasSpans: they have no link.
func TestARunWithoutATraceHasSpans(t *testing.T) {
	traced := func(ctx context.Context, _ string) (string, error) {
		return trace.SpanContextFromContext(ctx).SpanID().String(), nil
	}
	run(t, traced, func(t *testing.T, tr *tracing, _ *troupe.Engine, handle *troupe.Handle[string, string]) {
		for _, option := range []troupe.TriggerOption{troupe.Tenant("acme"), troupe.TraceContext("no trace context")} {
			id, err := handle.Run(t.Context(), "", option)
			require.NoError(t, err)
			spans := tr.attempts()
			require.Len(t, spans, 1)
			require.Empty(t, spans[0].Links)
			require.False(t, spans[0].Parent.IsValid())
			require.Equal(t, "succeeded", values(spans[0])["troupe.outcome"])
			require.Equal(t, codes.Unset, spans[0].Status.Code)
			require.Equal(t, spans[0].SpanContext.SpanID().String(), id, "the step's context has the span")
		}
	})
}

// unprintable is an error whose method panics.
type unprintable struct{}

func (unprintable) Error() string { panic("no text") }

// TestASpanSaysHowItsAttemptEnded: as the engine judges it.
func TestASpanSaysHowItsAttemptEnded(t *testing.T) {
	waits := func(ctx context.Context, _ string) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	fails := func(err error) func(context.Context, string) (int, error) {
		return func(context.Context, string) (int, error) { return 0, err }
	}
	for name, test := range map[string]struct {
		fn                   func(context.Context, string) (int, error)
		meanwhile            func(t *testing.T, engine *troupe.Engine, run *troupe.Run[int])
		outcome, class, text string
	}{
		"an error without a class": {fn: fails(errors.New("busy")), outcome: "errored", class: "_OTHER", text: "busy"},
		"an error that has no text": {
			fn: fails(unprintable{}), outcome: "errored", class: "_OTHER", text: "error of type otel_test.unprintable, whose Error method panicked",
		},
		"a long error": {fn: fails(errors.New(strings.Repeat("ä", 3000))), outcome: "errored", class: "_OTHER", text: strings.Repeat("ä", 512)},
		"a panic": {
			fn:      func(context.Context, string) (int, error) { panic("boo") },
			outcome: "errored", class: "panic", text: "the step function panicked, or ended its goroutine",
		},
		"a timeout": {fn: waits, outcome: "errored", class: "timed_out", text: "attempt timed out"},
		"a timeout that the step hides": {
			fn:      func(ctx context.Context, _ string) (int, error) { _, _ = waits(ctx, ""); return 1, nil },
			outcome: "errored", class: "timed_out", text: "attempt timed out",
		},
		"a cancel": {
			fn: waits,
			meanwhile: func(t *testing.T, _ *troupe.Engine, run *troupe.Run[int]) {
				require.NoError(t, run.Cancel(t.Context(), "not wanted"))
			},
			outcome: "errored", class: "canceled", text: "run was asked to stop",
		},
		"a stop": {
			fn: waits,
			meanwhile: func(t *testing.T, engine *troupe.Engine, _ *troupe.Run[int]) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = engine.Stop(ctx)
			},
			outcome: "released",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, test.fn, func(t *testing.T, tr *tracing, engine *troupe.Engine, handle *troupe.Handle[string, int]) {
				started, err := handle.RunNoWait(t.Context(), "")
				require.NoError(t, err)
				if test.meanwhile != nil {
					synctest.Wait()
					test.meanwhile(t, engine, started)
				} else {
					_, err = started.Await(t.Context())
					require.ErrorIs(t, err, troupe.ErrRunFailed)
				}
				synctest.Wait()
				spans := tr.attempts()
				require.Len(t, spans, 1)
				require.Equal(t, test.outcome, values(spans[0])["troupe.outcome"])
				if test.class != "" {
					require.Equal(t, test.class, values(spans[0])["error.type"])
				}
				require.Equal(t, test.text, spans[0].Status.Description)
			}, troupe.AttemptTimeout(time.Minute))
		})
	}
}

// TestAnUnsampledTraceStaysUnsampled: the attempts follow the sampler's decision about the trigger.
func TestAnUnsampledTraceStaysUnsampled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTracing(t)
		tr.provider = sdktrace.NewTracerProvider(
			sdktrace.WithSyncer(tr.exporter), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
		var err error
		tr.telemetry, err = otel.New(tr.provider, nil)
		require.NoError(t, err)
		engine, err := troupe.NewInMemory(tr.config())
		require.NoError(t, err)
		ctx, trigger := tr.span(t, "unsampled")
		handle := start(t, engine, func(ctx context.Context, _ string) (string, error) {
			return trace.SpanContextFromContext(ctx).TraceID().String(), nil
		})
		id, err := handle.Run(ctx, "")
		require.NoError(t, err)
		require.Equal(t, trigger.TraceID().String(), id)
		require.Empty(t, tr.exporter.GetSpans())
	})
}

func TestTelemetryNeedsAProvider(t *testing.T) {
	t.Parallel()
	_, err := otel.New(nil, nil)
	require.ErrorContains(t, err, "neither tracers nor meters")
}

// TestTraceparentsAreReadAsOpenTelemetryDoes: the invalid ones, too.
func TestTraceparentsAreReadAsOpenTelemetryDoes(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	texts := []string{good, "", "00", good[:54], good + "0", "ff" + good[2:], "01" + good[2:] + "-later", "cc" + good[2:] + "later"}
	for at := range good {
		for _, with := range []string{"0", "g", "-", "A", "f"} {
			texts = append(texts, good[:at]+with+good[at+1:])
		}
	}
	for _, text := range texts {
		ours := otel.Parse(text)
		carrier := propagation.MapCarrier{"traceparent": text}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		require.Equal(t, theirs.IsValid(), ours.IsValid(), text)
		require.Equal(t, theirs.TraceID(), ours.TraceID(), text)
		require.Equal(t, theirs.SpanID(), ours.SpanID(), text)
		require.Equal(t, theirs.IsSampled(), ours.IsSampled(), text)
	}
}
