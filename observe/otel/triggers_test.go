package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/migrations"
)

// TestEveryTriggerIsLinked: RunMany, a step that triggers another run, and messages, whose sender
// says what their trace is.
func TestEveryTriggerIsLinked(t *testing.T) {
	t.Parallel()
	tr := newTracing(t)
	config := tr.config()
	config.System = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	engine, err := troupe.NewInMemory(config)
	require.NoError(t, err)
	var handle *troupe.Handle[string, string]
	handle = start(t, engine, func(ctx context.Context, in string) (string, error) {
		if in == "parent" {
			return handle.Run(ctx, "child")
		}
		return in, nil
	})

	ctx, trigger := tr.span(t, "many")
	runs, err := handle.RunMany(ctx, []string{"a", "b"})
	require.NoError(t, err)
	for _, run := range runs {
		_, err := run.Await(t.Context())
		require.NoError(t, err)
	}
	spans := tr.attempts()
	require.Len(t, spans, 2)
	for _, s := range spans {
		requireLinked(t, trigger, true, s)
	}

	ctx, trigger = tr.span(t, "nested")
	_, err = handle.Run(ctx, "parent")
	require.NoError(t, err)
	spans = tr.attempts()
	require.Len(t, spans, 2, "the child's ends first")
	requireLinked(t, spans[1].SpanContext, true, spans[0])
	requireLinked(t, trigger, true, spans[1])

	ctx, trigger = tr.span(t, "message")
	done := make(chan struct{})
	clerk := config.System.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case *messages.TriggerRun:
			ctx.Request(engine.PID(), msg)
		case *messages.RunTriggered:
			ctx.Request(engine.PID(), &messages.AwaitRun{Run: msg.GetRun()})
		case *messages.RunEnded:
			close(done)
		}
	}))
	config.System.Root.Send(clerk, &messages.TriggerRun{
		Workflow: "orders", Input: []byte(`"message"`), TraceContext: tr.telemetry.TraceContext(ctx),
	})
	<-done
	spans = tr.attempts()
	require.Len(t, spans, 1)
	requireLinked(t, trigger, true, spans[0])
}

// TestLinksCrossPods: one pod triggers, in a call and in a transaction, and another one, with a provider of
// its own, executes. A requeue is a trigger, too.
func TestLinksCrossPods(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	var mended atomic.Bool
	charge := func(context.Context, string) (int, error) {
		if mended.Load() {
			return 1, nil
		}
		return 0, errors.New("busy")
	}
	web, worker := newTracing(t), newTracing(t)
	join := func(tr *tracing, queue string) (*troupe.Engine, *troupe.Handle[string, int]) {
		config := tr.config()
		config.QueueSlots = map[string]int{queue: 2}
		engine, err := troupe.New(pool, config)
		require.NoError(t, err)
		return engine, start(t, engine, charge, troupe.Queue("work"))
	}
	engine, handle := join(web, "nothing")
	join(worker, "work")
	ends := func(run *troupe.Run[int], trigger trace.SpanContext) {
		t.Helper()
		_, _ = run.Await(t.Context())
		require.Empty(t, web.attempts(), "it only triggers")
		var spans []trace.SpanContext
		require.Eventually(t, func() bool { // the span ends before the run, and is exported at once
			for _, s := range worker.attempts() {
				requireLinked(t, trigger, true, s)
				spans = append(spans, s.SpanContext)
			}
			return len(spans) == 1
		}, 30*time.Second, 10*time.Millisecond)
	}

	ctx, trigger := web.span(t, "call")
	failed, err := handle.RunNoWait(ctx, "")
	require.NoError(t, err)
	ends(failed, trigger)

	ctx, trigger = web.span(t, "transaction")
	var stored *troupe.Run[int]
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		stored, err = handle.TriggerTx(ctx, tx, "")
		return err
	}))
	ends(stored, trigger)

	mended.Store(true)
	ctx, trigger = web.span(t, "requeue")
	letters, err := engine.DeadLetters().List(ctx, troupe.DeadLetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters.Letters, 2, "of the call and of the transaction")
	require.Equal(t, failed.ID(), letters.Letters[0].Run)
	requeued, err := engine.DeadLetters().Requeue(ctx, "", letters.Letters[0].ID, troupe.RequeueOptions{})
	require.NoError(t, err)
	ends(handle.Get("", requeued.Run), trigger)
}
