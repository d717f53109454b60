package features_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A sleep is a row in the database. No process waits, so it may last for
// months and survives every restart in between.
func TestSleep(t *testing.T) {
	greet := func(_ context.Context, name string) (string, error) { return "welcome, " + name, nil }
	remind := func(_ context.Context, name string) (string, error) { return "still there, " + name + "?", nil }
	w := troupe.Define("trial", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		greeted := troupe.Step0(b, "greet", greet)
		trial := troupe.Sleep(b, "trial", 30*24*time.Hour, troupe.After(greeted))
		return troupe.Step0(b, "remind", remind, troupe.After(trial))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		run, err := handle.RunNoWait(t.Context(), "Ada")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, map[string]troupe.State{
			"greet": troupe.StateCompleted, "trial": troupe.StateSleeping, "remind": troupe.StatePending,
		}, statesOf(t, engine, run.ID()))

		text, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "still there, Ada?", text)
	})
}

// SleepUntil takes its instant from the input or from what a step returned.
func TestSleepUntil(t *testing.T) {
	type invoice struct{ Due time.Time }
	var reminded time.Time
	remind := func(context.Context, invoice) (bool, error) {
		reminded = time.Now()
		return true, nil
	}
	w := troupe.Define("invoice", func(b *troupe.Builder[invoice]) troupe.StepRef[bool] {
		due := troupe.SleepUntil(b, "due", b.Input(), func(i invoice) time.Time { return i.Due })
		return troupe.Step0(b, "remind", remind, troupe.After(due))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[invoice, bool]) {
		due := time.Now().Add(14 * 24 * time.Hour)
		_, err := handle.Run(t.Context(), invoice{due})
		require.NoError(t, err)
		require.False(t, reminded.Before(due), "a timer never fires early")
	})
}
