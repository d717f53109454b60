package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V12: the event log.

func TestR17EventsOfALinearRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, line(&diary{}))
		run := begin(t, handle, "")
		for _, step := range []string{"a", "b", "c"} {
			require.Equal(t, "queued started completed", trail(t, run, step))
		}
		require.Equal(t, "run_created run_started run_completed", trail(t, run, ""))
	})
}

func TestR17EventsOfABranch(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, fork(&diary{},
			func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.SkipIf(v, verdict.invalid) },
			func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.SkipIf(v, verdict.valid) }))
		run := begin(t, handle, true)
		require.Equal(t, "skipped", trail(t, run, "reject"))
		require.Equal(t, "queued started completed", trail(t, run, "finalize"))
		run = begin(t, handle, false)
		require.Equal(t, "skipped", trail(t, run, "charge"))
		require.Equal(t, "skipped", trail(t, run, "ship"))
	})
}

func TestR17EventsOfASleep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("sleep", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", clockIn(&diary{}, "after"), troupe.After(troupe.Sleep(b, "sleep", day)))
		}))
		run := begin(t, handle, true)
		require.Equal(t, "sleeping", trail(t, run, "sleep"))
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "sleeping woken", trail(t, run, "sleep"))
	})
}

func TestR17EventsOfARetry(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			if troupe.Task(ctx).Attempt < 3 {
				return 0, troupe.Class("downstream", errBusy)
			}
			return 1, nil
		}, steady(3)))
		run := begin(t, handle, "")
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "queued started retrying queued started retrying queued started completed", trail(t, run, "step"))
		var delays []time.Duration
		for event, err := range run.Events(t.Context()) {
			require.NoError(t, err)
			if event.Kind == "retrying" {
				delays = append(delays, event.Delay)
				require.Equal(t, "downstream", event.Class)
				require.Equal(t, "busy", event.Text)
			}
		}
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, delays)
	})
}

func TestR17EventsOfARetryNameTheTimeout(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}, steady(2), troupe.AttemptTimeout(time.Minute), troupe.HeartbeatTimeout(time.Second)))
		run := begin(t, handle, "")
		_, err := run.Await(t.Context())
		require.Error(t, err)
		var named []string
		for event, err := range run.Events(t.Context()) {
			require.NoError(t, err)
			if event.Step == "step" && event.By != "" {
				named = append(named, event.Kind+" "+event.By)
			}
		}
		require.Equal(t, []string{"retrying heartbeat", "timed_out heartbeat"}, named)
	})
}

func TestR17EventsOfAFailureAndItsHandler(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("fails", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			b.OnFailure(func(context.Context, string, []*troupe.StepError) error { return nil })
			return troupe.Step0(b, "bad", func(context.Context, string) (int, error) { return 0, errBusy })
		}))
		run := begin(t, handle, "")
		require.Equal(t, "queued started failed", trail(t, run, "bad"))
		require.Equal(t, "queued started completed", trail(t, run, "on-failure"))
		require.Equal(t, "run_created run_started run_failed", trail(t, run, ""))
	})
}

func TestR17EventsOfACancel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, slow())
		run := begin(t, handle, "")
		require.NoError(t, run.Cancel(t.Context(), "no longer needed"))
		_, err := run.Await(t.Context())
		require.ErrorContains(t, err, "no longer needed")
		require.Equal(t, "run_created run_started cancel_requested run_canceled", trail(t, run, ""))
	})
}
