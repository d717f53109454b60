package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/persistence"
)

// ledgers is charge → ship, which fails; the failure handler gives back what was
// charged.
func ledgers(d *diary, charge func(string) (string, error)) *troupe.Workflow[string, string] {
	return troupe.Define("ledgers", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		charged := troupe.Step0(b, "charge", func(_ context.Context, in string) (string, error) { return charge(in) })
		_, never := troupe.If(charged, func(string) bool { return true })
		gift := troupe.Step1(b, "gift", func(context.Context, string, string) (int, error) { return 1, nil }, charged, never)
		shipped := troupe.Step1(b, "ship", func(context.Context, string, string) (string, error) { return "", errBusy }, charged)
		b.OnFailure(func(ctx context.Context, _ string, failed []*troupe.StepError) error {
			payment, err := troupe.Completed(ctx, charged)
			var failure *troupe.StepError
			switch {
			case errors.As(err, &failure):
				d.note("nothing to give back: %s", failure.Text)
			case err != nil:
				return err
			default:
				d.note("%s fails, gives back %d bytes", failed[0].Step, len(payment))
			}
			_, err = troupe.Completed(ctx, gift)
			d.note("gift: %v", errors.Is(err, troupe.ErrStepSkipped) || errors.Is(err, troupe.ErrStepCanceled))
			_, err = troupe.Completed(ctx, shipped)
			d.note("ship: %v", err != nil)
			_, err = troupe.Completed(ctx, troupe.StepRef[int]{})
			d.note("none: %v", err)
			return nil
		})
		return shipped
	})
}

// A failure handler gets the outputs of steps that completed, also those that no grant
// carries.
func TestAFailureHandlerReadsWhatHasCompleted(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, ledgers(d, func(in string) (string, error) { return in, nil }))
		for _, size := range []int{10, 4 * persistence.InlinePayloadMax} {
			run := begin(t, handle, strings.Repeat("x", size))
			_, err := run.Await(t.Context())
			require.ErrorIs(t, err, troupe.ErrRunFailed)
			require.Equal(t, troupe.StateCompleted, stepOf(t, run, "on-failure").State)
		}
		none := "none: completed: ref is empty: pass what the declaration of the step returned in Define"
		require.Equal(t, []string{
			"ship fails, gives back 10 bytes", "gift: true", "ship: true", none,
			"ship fails, gives back 262144 bytes", "gift: true", "ship: true", none,
		}, d.all())
	})
}

func TestAFailureHandlerIsToldThatNothingCompleted(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, ledgers(d, func(string) (string, error) { return "", errors.New("declined") }))
		_, err := handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, []string{"nothing to give back: declined", "gift: true", "ship: true"}, d.all()[:3])
	})
}

// Elsewhere an output is a parameter: the edge says that the step waits for it.
func TestOnlyAFailureHandlerReadsWhatHasCompleted(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("w", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			first := troupe.Step0(b, "first", number)
			return troupe.Step0(b, "second", func(ctx context.Context, _ string) (int, error) {
				return troupe.Completed(ctx, first)
			}, troupe.After(first))
		}))
		_, err := handle.Run(t.Context(), "")
		require.ErrorContains(t, err, "the caller is no function of OnFailure: declare the step as a parent")
		_, err = troupe.Completed(t.Context(), troupe.StepRef[int]{})
		require.ErrorContains(t, err, "the caller is no function of OnFailure")
	})
}

// While an engine stops, step functions may finish: a failure handler still reads.
func TestAFailureHandlerReadsWhileItsEngineStops(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d, asked := &diary{}, make(chan struct{})
		engine, handle := start(t, troupe.Define("w", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			charge := troupe.Step0(b, "charge", func(_ context.Context, in string) (string, error) { return in, nil })
			b.OnFailure(func(ctx context.Context, _ string, _ []*troupe.StepError) error {
				<-asked
				payment, err := troupe.Completed(ctx, charge)
				d.note("%s %v", payment, err)
				return err
			})
			return troupe.Step1(b, "ship", func(context.Context, string, string) (string, error) { return "", errBusy }, charge)
		}))
		begin(t, handle, "o-1")
		stopped := make(chan error)
		go func() { stopped <- engine.Stop(context.Background()) }()
		synctest.Wait()
		close(asked)
		require.NoError(t, <-stopped)
		require.Equal(t, []string{"o-1 <nil>"}, d.all())
	})
}
