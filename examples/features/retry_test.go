package features_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A step with Retry is tried again after a failure. The wait in between is a
// row in the database: it outlives the process and holds no slot.
func TestRetry(t *testing.T) {
	var tries []int
	flaky := func(ctx context.Context, _ string) (string, error) {
		task := troupe.Task(ctx)
		tries = append(tries, task.Attempt)
		if task.Attempt < 3 {
			return "", errors.New("busy, come back later")
		}
		return "through after " + task.Step, nil
	}
	w := troupe.Define("flaky", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "call", flaky, troupe.Retry{Attempts: 5, First: time.Second, Factor: 2, Jitter: -1})
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, string]) {
		began := time.Now()
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "through after call", got)
		require.Equal(t, []int{1, 2, 3}, tries)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "1 s, then 2 s")
	})
}

// Terminal says that no attempt will help. Retry.If says it for errors that a
// step does not make itself, Retry.Never for classes of errors.
func TestErrorsThatAreNotRetried(t *testing.T) {
	errBadCard, errGone := errors.New("card is stolen"), errors.New("account is gone")
	tries := 0
	pay := func(_ context.Context, card string) (string, error) {
		tries++
		if card == "stolen" {
			return "", troupe.Terminal(troupe.Class("card", errBadCard))
		}
		return "", errGone
	}
	w := troupe.Define("pay", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "pay", pay, troupe.Retry{
			Attempts: 9, If: func(err error) bool { return !errors.Is(err, errGone) },
		})
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, string]) {
		_, err := handle.Run(t.Context(), "stolen")
		var ended *troupe.RunError
		require.ErrorAs(t, err, &ended)
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, "pay", ended.Step)
		require.Equal(t, "card", ended.Class)
		require.Equal(t, "card is stolen", ended.Text)
		require.Equal(t, 1, tries)

		_, err = handle.Run(t.Context(), "other")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, 2, tries)
	})
}

func TestClassesThatAreNeverRetried(t *testing.T) {
	tries := 0
	pay := func(context.Context, string) (string, error) {
		if tries++; tries == 1 {
			return "", troupe.Class("busy", errors.New("come back later"))
		}
		return "", troupe.Class("declined", errors.New("no funds"))
	}
	w := troupe.Define("pay-by-class", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "pay", pay, troupe.Retry{Attempts: 9, Never: []string{"declined", "panic"}})
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		_, err := handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, 2, tries)
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Equal(t, troupe.DeadNonRetryable, letters.Letters[0].Reason)
	})
}
