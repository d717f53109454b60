package troupe

import (
	"context"
	"log/slog"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/panics"
)

// scope is what an engine adds to the contexts of its step functions.
type scope struct {
	codec  Codec
	engine *Engine      // nil: there is none
	logger *slog.Logger // the embedder's own; nil: there is none
}

type scopeKey struct{}

// in returns a context that carries s.
func (s *scope) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// scopeOf returns the scope of a step function; outside of one there is no engine.
func scopeOf(ctx context.Context) *scope {
	if within, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return within
	}
	return &scope{codec: JSON{}}
}

// Logger returns Config.Logger with the run, workflow, step, tenant and attempt that a step
// function executes: run_id, workflow, step, tenant and attempt. It is made when it is asked for;
// keep it if you ask often. It hands records to the handler at once, as your own logger does, and
// not through the queue of the engine's records. Outside of a step function, as in a test that
// calls the function itself, it is [slog.Default].
func Logger(ctx context.Context) *slog.Logger {
	attempt, within := actors.AttemptFrom(ctx), scopeOf(ctx)
	if attempt == nil || within.logger == nil {
		return slog.Default()
	}
	t := attempt.Info()
	return slog.New(within.logger.Handler().WithAttrs([]slog.Attr{
		slog.String("run_id", t.Run.String()), slog.String("workflow", t.Workflow), slog.String("step", t.Step),
		slog.String("tenant", t.Tenant), slog.Int("attempt", t.Attempt),
	}))
}

// traceContext returns the trace context of what a caller triggers: the one that it names, or else
// what Config.TraceContext finds in its context. A TraceContext that panics costs the trace,
// and not the run.
func (e *Engine) traceContext(ctx context.Context, named string) (trace string) {
	if named != "" || e.config.TraceContext == nil {
		return named
	}
	defer func() {
		if reason := recover(); reason != nil {
			trace = ""
			e.config.Logger.LogAttrs(ctx, slog.LevelError, "Config.TraceContext panicked: a run is triggered without a trace context",
				slog.String("reason", panics.Text(reason)))
		}
	}()
	return e.config.TraceContext(ctx)
}
