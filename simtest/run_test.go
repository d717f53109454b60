package simtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// bank is a service of the tests.
type bank struct{ charges map[string]int }

func newBank(s *simtest.Sim) (*simtest.Service[bank], *bank) {
	state := &bank{charges: map[string]int{}}
	return simtest.NewService(s, state), state
}

// charged charges under a key, waits a day and returns its input.
func charged(service *simtest.Service[bank], key func(ctx context.Context, in string) string) *troupe.Workflow[string, string] {
	return troupe.Define("charged", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		charge := troupe.Step0(b, "charge", func(ctx context.Context, in string) (string, error) {
			return in, service.Do(ctx, func(b *bank) error {
				b.charges[key(ctx, in)]++
				return nil
			})
		}, troupe.Retry{Attempts: 1000})
		window := troupe.Sleep(b, "day", 24*time.Hour, troupe.After(charge))
		return troupe.Step1(b, "end", func(_ context.Context, _, in string) (string, error) { return in + "!", nil }, charge, troupe.After(window))
	})
}

func attemptID(ctx context.Context, _ string) string { return troupe.Task(ctx).AttemptID }
func input(_ context.Context, in string) string      { return in }

func TestRunsEndWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 100}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, charged(service, attemptID))
		began := time.Now()
		out, err := w.Start("x").Await()
		require.NoError(s, err)
		require.Equal(s, "x!", out)
		require.GreaterOrEqual(s, time.Since(began), 24*time.Hour)
		s.Sometimes("a step is executed twice", len(bank.charges) > 1)
	})
}

func TestFindReportsAStepThatTakesEffectTwice(t *testing.T) {
	t.Parallel()
	failure := simtest.Find(t, simtest.Options{Faults: simtest.Only(simtest.StepTwice, simtest.PodPause)}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, charged(service, input))
		s.Always("charged once", func() bool { return bank.charges["x"] <= 1 })
		_, _ = w.Start("x").Await()
	})
	require.NotNil(t, failure)
	require.Equal(t, `always "charged once"`, failure.Promise)
	require.Contains(t, failure.Report, `Step "charge" of workflow "charged" was executed 2 times:`)
	require.Contains(t, failure.Report, "IdempotencyKey")
	require.Contains(t, failure.Report, "step-twice at charged/charge")
	require.NotContains(t, failure.Report, "pod-pause", "what does not matter is left out")
	require.Contains(t, failure.Report, "TROUPE_SIM_SEED=")
}
