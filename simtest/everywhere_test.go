package simtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 20, Most: 400}, func(s *simtest.Sim) {
		service, _ := newBank(s)
		w := simtest.Register(s, charged(service, attemptID))
		out, err := w.Start("x").Await()
		require.NoError(s, err)
		require.Equal(s, "x!", out)
	})
}

func TestCrashEverywhereFindsAStepThatTakesEffectTwice(t *testing.T) {
	t.Parallel()
	failure := simtest.FindByCrashing(t, simtest.Options{}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, charged(service, input))
		s.Always("charged once", func() bool { return bank.charges["x"] <= 1 })
		_, _ = w.Start("x").Await()
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Report, `crashes right after step "charge" of charged-1 has succeeded`)
}

func TestNewIsAClusterWithoutFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		service, bank := newBank(s)
		w := simtest.Register(s, charged(service, attemptID))
		run := w.Start("x")
		s.RunUntilIdle()
		require.Len(t, bank.charges, 1)
		require.Equal(t, map[string]troupe.State{
			"charge": troupe.StateCompleted, "day": troupe.StateSleeping, "end": troupe.StatePending,
		}, run.States())
		s.Advance(23 * time.Hour)
		require.Equal(t, troupe.StateSleeping, run.States()["day"])
		s.Advance(2 * time.Hour)
		require.Equal(t, troupe.StateCompleted, run.Status().State)
		out, err := run.Await()
		require.NoError(t, err)
		require.Equal(t, "x!", out)
		var kinds []string
		for _, event := range run.Events() {
			if event.Step == "day" {
				kinds = append(kinds, event.Kind)
			}
		}
		require.Equal(t, []string{"sleeping", "woken"}, kinds)
	})
}
