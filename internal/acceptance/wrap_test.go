package acceptance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

func wrap(fn func(context.Context, troupe.TaskInfo, func(context.Context) error) error) func(*troupe.Config) {
	return func(c *troupe.Config) { c.Wrap = fn }
}

type requestID struct{}

// TestWrapIsAroundEveryAttempt: of steps, of every try, and of OnFailure. It adds to the context of
// the step, and one wrap may call another.
func TestWrapIsAroundEveryAttempt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		inner := func(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
			d.note("in %s %d", task.Step, task.Attempt)
			defer d.note("out %s", task.Step)
			return next(context.WithValue(ctx, requestID{}, task.IdempotencyKey))
		}
		outer := func(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
			require.Equal(t, task, troupe.Task(ctx))
			d.note("outer")
			return inner(ctx, task, next)
		}
		_, handle := start(t, troupe.Define("wrapped", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			b.OnFailure(func(context.Context, string, []*troupe.StepError) error {
				d.note("handles")
				return nil
			})
			first := troupe.Step0(b, "first", func(ctx context.Context, _ string) (string, error) {
				d.note("first")
				require.NoError(t, troupe.Heartbeat(ctx, "halfway"))
				return fmt.Sprint(ctx.Value(requestID{})), nil
			})
			return troupe.Step1(b, "second", func(ctx context.Context, _, key string) (string, error) {
				require.True(t, strings.HasSuffix(key, "/first"), key)
				d.note("second")
				return "", errBusy
			}, first, steady(2))
		}), wrap(outer))
		_, err := handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{
			"outer", "in first 1", "first", "out first",
			"outer", "in second 1", "second", "out second",
			"outer", "in second 2", "second", "out second",
			"outer", "in on-failure 1", "handles", "out on-failure",
		}, d.all())
	})
}

// TestTheErrorOfAWrapIsTheAttempts: it is retried as an error of the step is, and its panic is one.
func TestTheErrorOfAWrapIsTheAttempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wrap        func(context.Context, troupe.TaskInfo, func(context.Context) error) error
		class, text string
		attempts    int
	}{
		"an error": {func(ctx context.Context, _ troupe.TaskInfo, next func(context.Context) error) error {
			return troupe.Class("quota", errors.Join(next(ctx), errBusy))
		}, "quota", "busy", 3},
		"a terminal one": {func(context.Context, troupe.TaskInfo, func(context.Context) error) error {
			return troupe.Terminal(troupe.Class("quota", errBusy))
		}, "quota", "busy", 1},
		"none, and the step was not called": {func(context.Context, troupe.TaskInfo, func(context.Context) error) error {
			return nil
		}, "wrap", "had not called next", 3},
		"a panic": {func(context.Context, troupe.TaskInfo, func(context.Context) error) error {
			panic("of the wrap")
		}, "panic", "of the wrap", 3},
		"the end of its deadline": {func(ctx context.Context, _ troupe.TaskInfo, next func(context.Context) error) error {
			<-ctx.Done()
			return next(ctx)
		}, "timed_out", "attempt timed out", 3},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				_, handle := start(t, single(number, steady(3), troupe.AttemptTimeout(time.Minute)), wrap(test.wrap))
				run := begin(t, handle, "")
				_, err := run.Await(t.Context())
				var ended *troupe.RunError
				require.ErrorAs(t, err, &ended)
				require.Equal(t, test.class, ended.Class)
				require.Contains(t, ended.Text, test.text)
				require.Equal(t, test.attempts, stepOf(t, run, "step").Attempt)
			})
		})
	}
}

// TestStepsThatAreTakenOverAreNotWrapped: a requeue executes what is left.
func TestStepsThatAreTakenOverAreNotWrapped(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s, d := &shop{}, &diary{}
		engine, handle := start(t, s.workflow(), wrap(func(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
			d.note("%s", task.Step)
			return next(ctx)
		}))
		_, err := handle.Run(t.Context(), "it")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		s.mended.Store(true)
		page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		requeued, err := engine.DeadLetters().Requeue(t.Context(), "", page.Letters[0].ID, troupe.RequeueOptions{})
		require.NoError(t, err)
		_, err = handle.Get("", requeued.Run).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"charge", "ship", "ship"}, d.all())
	})
}

// TestATaskKnowsWhenItWasReady: by the database's clock.
func TestATaskKnowsWhenItWasReady(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var seen troupe.TaskInfo
		begun := time.Now()
		_, handle := start(t, single(number, steady(2)), wrap(func(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
			if seen = task; task.Attempt == 1 {
				return errBusy
			}
			return next(ctx)
		}))
		_, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.True(t, seen.QueuedAt.Equal(begun.Add(time.Second)), seen.QueuedAt)
		require.True(t, seen.StartedAt.Equal(begun.Add(time.Second)), seen.StartedAt)
	})
}

type traceKey struct{}

// TestTheTraceOfACallerIsStored: of whatever it triggers, unless it names another.
func TestTheTraceOfACallerIsStored(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var text strings.Builder
		engine, handle := start(t, single(func(ctx context.Context, _ string) (string, error) {
			return troupe.Task(ctx).TraceContext, nil
		}), func(c *troupe.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&text, nil))
			c.TraceContext = func(ctx context.Context) string {
				trace, _ := ctx.Value(traceKey{}).(string)
				if trace == "bad" {
					panic("of the hook")
				}
				return trace
			}
		})
		require.NotNil(t, engine)
		traced := func(trace string) context.Context { return context.WithValue(t.Context(), traceKey{}, trace) }
		got := func(ctx context.Context, options ...troupe.TriggerOption) string {
			trace, err := handle.Run(ctx, "", options...)
			require.NoError(t, err)
			return trace
		}
		require.Empty(t, got(t.Context()))
		require.Equal(t, "a", got(traced("a")))
		require.Equal(t, "b", got(traced("a"), troupe.TraceContext("b")))
		runs, err := handle.RunMany(traced("c"), []string{"", ""})
		require.NoError(t, err)
		for _, run := range runs {
			trace, err := run.Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, "c", trace)
		}
		require.Empty(t, got(traced("bad")), "the run counts more than its trace")
		require.Contains(t, text.String(), "Config.TraceContext panicked")

		_, err = handle.RunNoWait(traced("a\x00b"), "")
		var refused *troupe.TriggerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "trace_context", refused.Field)
	})
}

// TestARequeueHasATraceOfItsOwn: of the caller who requeues, or else that of the trigger.
func TestARequeueHasATraceOfItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		engine, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			d.note("%s", troupe.Task(ctx).TraceContext)
			return 0, errBusy
		}), func(c *troupe.Config) {
			c.TraceContext = func(ctx context.Context) string {
				trace, _ := ctx.Value(traceKey{}).(string)
				return trace
			}
		})
		_, err := handle.Run(context.WithValue(t.Context(), traceKey{}, "trigger"), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		dead := engine.DeadLetters()
		page, err := dead.List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		for _, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), traceKey{}, "requeue")} {
			requeued, err := dead.Requeue(ctx, "", page.Letters[0].ID, troupe.RequeueOptions{Again: true})
			require.NoError(t, err)
			_, err = handle.Get("", requeued.Run).Await(t.Context())
			require.ErrorIs(t, err, troupe.ErrRunFailed)
		}
		require.Equal(t, []string{"trigger", "trigger", "requeue"}, d.all())
	})
}

// TestLoggerKnowsItsAttempt: troupe.Logger is Config.Logger with the fields of the attempt.
func TestLoggerKnowsItsAttempt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var text strings.Builder
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			troupe.Logger(ctx).Info("charging", slog.Int("amount", 3))
			return 1, nil
		}), func(c *troupe.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		}, wrap(func(ctx context.Context, _ troupe.TaskInfo, next func(context.Context) error) error {
			troupe.Logger(ctx).Info("wrapped")
			return next(ctx)
		}))
		run := begin(t, handle, "", troupe.Tenant("acme"))
		fields := fmt.Sprintf("run_id=%v workflow=single step=step tenant=acme attempt=1", run.ID())
		require.Contains(t, text.String(), "level=INFO msg=wrapped "+fields+"\n")
		require.Contains(t, text.String(), "level=INFO msg=charging "+fields+" amount=3\n")
	})
}
