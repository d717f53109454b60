package acceptance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V6: retries, failures and the failure handler.

var errBusy = errors.New("busy")

// steady is a retry policy without jitter.
func steady(attempts int) troupe.Retry {
	return troupe.Retry{Attempts: attempts, First: time.Second, Factor: 2, Cap: 4 * time.Second, Jitter: -1}
}

// single declares a workflow of one step.
func single[O any](fn func(context.Context, string) (O, error), options ...troupe.StepOption) *troupe.Workflow[string, O] {
	return troupe.Define("single", func(b *troupe.Builder[string]) troupe.StepRef[O] {
		return troupe.Step0(b, "step", fn, options...)
	})
}

func TestR11FlakyStepSucceedsOnItsThirdAttempt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			task := troupe.Task(ctx)
			if task.Attempt < 3 {
				return 0, errBusy
			}
			return task.MaxAttempts, nil
		}, steady(3)))
		run := begin(t, handle, "")
		require.Equal(t, "running step=backoff", states(t, run))
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, got)
		require.Equal(t, 3, stepOf(t, run, "step").Attempt)
	})
}

func TestR11PermanentFailureFailsTheRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("broken", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			bad := troupe.Step0(b, "bad", func(ctx context.Context, _ string) (string, error) {
				d.note("attempt %d", troupe.Task(ctx).Attempt)
				return "", troupe.Class("downstream", errBusy)
			}, steady(3))
			return troupe.Step1(b, "next", passes[string](d, "next"), bad)
		}))
		run := begin(t, handle, "")
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		var ended *troupe.RunError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, "bad", ended.Step)
		require.Equal(t, "downstream", ended.Class)
		require.Equal(t, "busy", ended.Text)
		require.Equal(t, []string{"attempt 1", "attempt 2", "attempt 3"}, d.all())
		require.Equal(t, "failed bad=failed next=canceled", states(t, run))
	})
}

func TestR11TerminalSkipsRetries(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			d.note("attempt %d", troupe.Task(ctx).Attempt)
			return 0, fmt.Errorf("wrapped: %w", troupe.Terminal(errBusy))
		}, steady(9)))
		before := time.Now()
		_, err := handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{"attempt 1"}, d.all())
		require.Zero(t, time.Since(before))
	})
}

func TestR11BackoffFollowsItsSchedule(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d, before := &diary{}, time.Now()
		_, handle := start(t, single(func(context.Context, string) (int, error) {
			d.note("%v", time.Since(before))
			return 0, errBusy
		}, steady(5)))
		run := begin(t, handle, "")
		step := stepOf(t, run, "step")
		require.Equal(t, time.Second, step.WakeAt.Sub(before))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{"0s", "1s", "3s", "7s", "11s"}, d.all(), "1 s, 2 s, 4 s, then the cap")
	})
}

func TestR20OnFailureRunsOnceWithInputAndFailedSteps(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		fails := func(text string) func(context.Context, string) (int, error) {
			return func(context.Context, string) (int, error) { return 0, errors.New(text) }
		}
		_, handle := start(t, troupe.Define("handled", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			b.OnFailure(func(ctx context.Context, in string, failed []*troupe.StepError) error {
				for _, step := range failed {
					d.note("%s: %s: %s", in, step.Step, step.Text)
				}
				d.note("in %s", troupe.Task(ctx).Step)
				return nil
			})
			troupe.Step0(b, "sibling", func(context.Context, string) (int, error) {
				time.Sleep(time.Hour)
				d.note("sibling ends")
				return 1, nil
			})
			return troupe.Step0(b, "bad", fails("no luck"), steady(2))
		}))
		run := begin(t, handle, "order 7")
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{"sibling ends", "order 7: bad: no luck", "in on-failure"}, d.all(),
			"once, and only when everything else has ended")
		require.Equal(t, "failed sibling=completed bad=failed on-failure=completed", states(t, run))
	})
}

func TestR20OnFailureIsNotForRunsThatSucceedOrAreCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("quiet", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			b.OnFailure(func(context.Context, string, []*troupe.StepError) error {
				d.note("called")
				return nil
			})
			return troupe.Step0(b, "step", func(ctx context.Context, in string) (int, error) {
				if in == "wait" {
					<-ctx.Done()
				}
				return 1, context.Cause(ctx)
			})
		}))
		_, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		run := begin(t, handle, "wait")
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.Empty(t, d.all())
	})
}

func TestR11RetryIfDecidesWhatIsWorthARetry(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, c := range []struct {
			worth    func(error) bool
			attempts int
		}{
			{func(err error) bool { return errors.Is(err, errBusy) }, 3},
			{func(error) bool { return false }, 1},
			{func(error) bool { panic("in the rule itself") }, 1},
		} {
			d, retry := &diary{}, steady(3)
			retry.If = c.worth
			_, handle := start(t, single(func(context.Context, string) (int, error) {
				d.note("attempt")
				return 0, fmt.Errorf("call the bank: %w", errBusy)
			}, retry))
			_, err := handle.Run(t.Context(), "")
			require.ErrorIs(t, err, troupe.ErrRunFailed)
			require.Len(t, d.all(), c.attempts)
		}
	})
}
