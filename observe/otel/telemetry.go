package otel

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// scope is the instrumentation scope of all spans and instruments.
const scope = "github.com/troupe-dev/troupe/observe/otel"

// The attributes of a span. Those of the run and the step are there when its sampler is
// asked, the last two when it ends.
const (
	AttributeRun       = attribute.Key("troupe.run_id")
	AttributeWorkflow  = attribute.Key("troupe.workflow")
	AttributeStep      = attribute.Key("troupe.step")
	AttributeItem      = attribute.Key("troupe.item")    // of an element of a map: the index of its item, from 0
	AttributeAttempt   = attribute.Key("troupe.attempt") // counted from 1
	AttributeTenant    = attribute.Key("troupe.tenant")
	AttributeQueueWait = attribute.Key("troupe.queue_wait") // seconds from ready to claimed
	AttributeOutcome   = attribute.Key("troupe.outcome")    // succeeded, errored or released
	AttributeErrorType = attribute.Key("error.type")        // the class of the error, see troupe.Class; "_OTHER": it has none
)

// Telemetry has what a [troupe.Config] takes. It is safe for concurrent use, and several
// engines may share it.
type Telemetry struct {
	tracer  trace.Tracer            // nil: there are no spans
	kind    []trace.SpanStartOption // of every span
	metrics troupe.Metrics
}

// New returns what sends spans to tracers and metrics to meters. Either may be nil: there are no
// spans, or no metrics, then.
func New(tracers trace.TracerProvider, meters metric.MeterProvider) (*Telemetry, error) {
	if tracers == nil && meters == nil {
		return nil, errors.New("new telemetry: there are neither tracers nor meters: pass a provider of the OpenTelemetry SDK")
	}
	t := &Telemetry{metrics: actors.NoMetrics{}, kind: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}}
	if tracers != nil {
		t.tracer = tracers.Tracer(scope)
	}
	if meters != nil {
		instruments, err := newInstruments(meters.Meter(scope))
		if err != nil {
			return nil, fmt.Errorf("new telemetry: %w", err)
		}
		t.metrics = instruments
	}
	return t, nil
}

// Metrics is for Config.Metrics. The instruments have the names of docs/metrics.md.
func (t *Telemetry) Metrics() troupe.Metrics { return t.metrics }

// TraceContext is for Config.TraceContext: it returns the traceparent of the span in a
// context; "": there is none. What a tracing system adds to it, tracestate, is left out: the
// column of a run holds a traceparent. propagation.TraceContext, which adds it, allocates more.
func (*Telemetry) TraceContext(ctx context.Context) string {
	of := trace.SpanContextFromContext(ctx)
	if !of.IsValid() {
		return ""
	}
	id, span, flags := of.TraceID(), of.SpanID(), of.TraceFlags()&trace.FlagsSampled
	text := append(make([]byte, 0, len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")), "00-"...)
	text = append(hex.AppendEncode(text, id[:]), '-')
	text = append(hex.AppendEncode(text, span[:]), '-')
	return string(hex.AppendEncode(text, []byte{byte(flags)}))
}

// childWithin is how long after its trigger an attempt is still part of the trigger's trace.
// Traces are not made for what takes days: collectors wait a minute or so for the rest of one.
const childWithin = time.Minute

// Wrap is for Config.Wrap: it makes a span of an attempt, named "workflow/step". The span is linked
// to the span that triggered the run, and the child of it if the attempt began within a minute of
// the trigger; later ones begin a trace of their own. What the step calls with its context,
// other runs included, belongs to the span.
func (t *Telemetry) Wrap(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
	if t.tracer == nil {
		return next(ctx)
	}
	spanned, span := t.start(ctx, &task)
	if !span.IsRecording() {
		return next(spanned) // there is nothing to end
	}
	ended := false
	defer func() {
		if !ended { // without recover the stack of a panic stays whole for the engine
			span.SetAttributes(AttributeOutcome.String(errored), AttributeErrorType.String("panic"))
			span.SetStatus(codes.Error, "the step function panicked, or ended its goroutine")
		}
		span.End()
	}()
	err := next(spanned)
	ended = true
	finish(context.Cause(ctx), span, err)
	return err
}

// start starts the span of an attempt.
func (t *Telemetry) start(ctx context.Context, task *troupe.TaskInfo) (context.Context, trace.Span) {
	step, _ := stepOf(task)
	name, trigger := task.Workflow+"/"+step, parse(task.TraceContext)
	child := trigger.IsValid() && task.StartedAt.Sub(triggeredAt(task.Run)) < childWithin
	if child {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trigger)
	}
	if child && !trigger.IsSampled() { // in all likelihood it is not recorded
		ctx, span := t.tracer.Start(ctx, name, t.kind...)
		if span.IsRecording() {
			span.AddLink(trace.Link{SpanContext: trigger})
			span.SetAttributes(attributes(task)...)
		}
		return ctx, span
	}
	options := append(make([]trace.SpanStartOption, 0, 3), t.kind[0], trace.WithAttributes(attributes(task)...))
	if trigger.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: trigger}))
	}
	return t.tracer.Start(ctx, name, options...)
}

// attributes are those that are known when an attempt begins.
func attributes(task *troupe.TaskInfo) []attribute.KeyValue {
	step, element := stepOf(task)
	list := append(make([]attribute.KeyValue, 0, 7),
		AttributeRun.String(task.Run.String()), AttributeWorkflow.String(task.Workflow), AttributeStep.String(step),
		AttributeAttempt.Int(task.Attempt), AttributeTenant.String(task.Tenant),
		AttributeQueueWait.Float64(task.StartedAt.Sub(task.QueuedAt).Seconds()),
	)
	if element {
		list = append(list, AttributeItem.Int(task.Item))
	}
	return list
}

// stepOf returns the step of a task, and whether the task is an element of a map, whose name is
// that of the map and a number. Spans have the name of the map: there are not many of these.
func stepOf(task *troupe.TaskInfo) (step string, element bool) {
	at := strings.LastIndexByte(task.Step, '[')
	if task.Item < 0 || at < 0 {
		return task.Step, false
	}
	return task.Step[:at], true
}

// parse reads a traceparent, as propagation.TraceContext does, which allocates. Of a text that
// is none it returns an invalid context.
func parse(text string) trace.SpanContext {
	const short, flags = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), 53
	if len(text) < short || text[2] != '-' || text[35] != '-' || text[52] != '-' || len(text) > short && text[short] != '-' {
		return trace.SpanContext{}
	}
	version, versionErr := octet(text[:2])
	sampled, flagsErr := octet(text[flags:short])
	traceID, traceErr := trace.TraceIDFromHex(text[3:35])
	spanID, spanErr := trace.SpanIDFromHex(text[36:52])
	known := version != 0xff && (version > 0 || len(text) == short && sampled <= 3) // flags of version 0
	if !known || errors.Join(versionErr, traceErr, spanErr, flagsErr) != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(sampled) & trace.FlagsSampled, Remote: true,
	})
}

// octet reads two digits.
func octet(text string) (byte, error) {
	n, err := strconv.ParseUint(text, 16, 8)
	if strings.ToLower(text) != text {
		err = strconv.ErrSyntax
	}
	return byte(n), err
}

// triggeredAt is the instant in an id, by the database's clock.
func triggeredAt(id troupe.RunID) time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// Outcomes of attempts.
const (
	succeeded = "succeeded"
	errored   = "errored"
	released  = "released" // the task is executed again, and this attempt does not count
)

// finish says how an attempt ended: err is what Wrap returns, and cause why its context has
// ended. It judges as the engine does.
func finish(cause error, span trace.Span, err error) {
	outcome, class := succeeded, ""
	switch {
	case errors.Is(cause, troupe.ErrAttemptTimeout), errors.Is(cause, troupe.ErrHeartbeatTimeout):
		outcome, class, err = errored, "timed_out", cause
	case err == nil:
	case errors.Is(cause, troupe.ErrStopping), errors.Is(cause, troupe.ErrLeaseLost), errors.Is(err, actors.ErrInputsMissing):
		outcome = released
	case errors.Is(cause, troupe.ErrCanceled):
		outcome, class = errored, "canceled"
	default:
		if outcome, class = errored, actors.ErrorClass(err); class == "" {
			class = "_OTHER"
		}
	}
	if outcome != errored {
		span.SetAttributes(AttributeOutcome.String(outcome))
		return
	}
	span.SetAttributes(AttributeOutcome.String(outcome), AttributeErrorType.String(class))
	span.SetStatus(codes.Error, text(err))
}

// textMax bounds the text of an error in a span, in bytes. The engine keeps all of it.
const textMax = 1 << 10

// text returns the text of an error, whose method is the embedder's and may panic.
func text(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("error of type %T, whose Error method panicked", err)
		}
	}()
	s = err.Error()
	if len(s) > textMax {
		s = s[:textMax]
	}
	return strings.ToValidUTF8(s, "")
}
