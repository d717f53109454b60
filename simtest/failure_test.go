package simtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// drawer is a bank that takes money and gives it back, once for each key.
type drawer struct{ charged, refunded map[string]bool }

// Whatever goes wrong, the failure handler reads what was charged, and gives it back.
func TestAFailureHandlerGivesBackWhatWasCharged(t *testing.T) {
	t.Parallel()
	body := func(s *simtest.Sim) {
		till := &drawer{charged: map[string]bool{}, refunded: map[string]bool{}}
		bank := simtest.NewService(s, till)
		w := simtest.Register(s, troupe.Define("refund", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			charge := troupe.Step0(b, "charge", func(ctx context.Context, in string) (string, error) {
				payment := "payment of " + in
				return payment, bank.Do(ctx, func(d *drawer) error { d.charged[payment] = true; return nil })
			}, troupe.Retry{Attempts: 100, First: time.Millisecond})
			b.OnFailure(func(ctx context.Context, _ string, _ []*troupe.StepError) error {
				payment, err := troupe.Completed(ctx, charge)
				if err != nil {
					return err
				}
				return bank.Do(ctx, func(d *drawer) error { d.refunded[payment] = true; return nil })
			}, troupe.Retry{Attempts: 100, First: time.Millisecond})
			return troupe.Step1(b, "ship", func(context.Context, string, string) (string, error) {
				return "", troupe.Terminal(errors.New("sold out"))
			}, charge)
		}))
		_, err := w.Start("o-1").Await()
		require.ErrorIs(s, err, troupe.ErrRunFailed)
		require.Equal(s, map[string]bool{"payment of o-1": true}, till.refunded)
	}
	simtest.Run(t, simtest.Options{Seeds: 60}, body)
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 1, Most: 100}, body)
}

// Retry.Never names classes: of the step, and of the engine.
func TestClassesOfErrorsThatAreNeverRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class string
		step  func(ctx context.Context, attempt int) error
		tries int
	}{
		"a class of the step": {"declined", func(_ context.Context, attempt int) error {
			if attempt == 1 {
				return errors.New("busy")
			}
			return troupe.Class("declined", errors.New("no funds"))
		}, 2},
		"a panic": {"panic", func(context.Context, int) error { panic("on purpose") }, 1},
		"a timeout": {"timed_out", func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}, 1},
		"another class": {"elsewhere", func(context.Context, int) error {
			return troupe.Class("declined", errors.New("no funds"))
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := simtest.New(t)
				w := simtest.Register(s, troupe.Define("never", func(b *troupe.Builder[int]) troupe.StepRef[int] {
					return troupe.Step0(b, "pay", func(ctx context.Context, _ int) (int, error) {
						return 0, c.step(ctx, troupe.Task(ctx).Attempt)
					}, troupe.Retry{Attempts: 5, Never: []string{c.class}}, troupe.AttemptTimeout(time.Minute))
				}))
				run := w.Start(1)
				_, err := run.Await()
				require.ErrorIs(t, err, troupe.ErrRunFailed)
				require.Equal(t, c.tries, run.Status().Steps[0].Attempt)
			})
		})
	}
}
