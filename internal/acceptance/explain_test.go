package acceptance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
)

// TestExplainARunningOrder asks at each stage of a run why it does not move.
func TestExplainARunningOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{Slots: 1})
		require.NoError(t, err)
		held := make(chan struct{})
		orders, err := troupe.Register(engine, troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			charge := troupe.Step0(b, "charge", func(_ context.Context, in string) (string, error) { <-held; return in, nil })
			window := troupe.Sleep(b, "fraud-window", 4*time.Hour, troupe.After(charge))
			return troupe.Step1(b, "ship", func(_ context.Context, _, paid string) (string, error) { return paid, nil }, charge, troupe.After(window))
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		lines := func(run *troupe.Run[string]) (lines []string) {
			synctest.Wait()
			reasons, err := run.Explain(t.Context())
			require.NoError(t, err)
			for _, r := range reasons {
				lines = append(lines, r.Text)
			}
			return lines
		}
		first, err := orders.RunNoWait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(3 * time.Second)
		got := lines(first)
		require.Len(t, got, 3)
		require.Regexp(t, `^running on .* for 3 s$`, got[0])
		require.Regexp(t, `^waits for charge, which is running on`, got[1])
		second, err := orders.RunNoWait(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, "1st in tenant line, 0 ahead; all 1 slot busy", lines(second)[0])
		close(held)
		require.Equal(t, []string{"sleeps, fires in 4 h", "waits for fraud-window, which sleeps, fires in 4 h"}, lines(first))
		time.Sleep(5 * time.Hour)
		require.Equal(t, []string{"the run has ended 1 h ago: it is completed"}, lines(first))
		_, err = engine.Explain(t.Context(), "another", first.ID())
		require.ErrorIs(t, err, troupe.ErrRunNotFound)
	})
}

// A function that ignores its context holds its slot, and the reason says so.
func TestExplainStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		held := make(chan struct{})
		deaf, err := troupe.Register(engine, troupe.Define("deaf", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			return troupe.Step0(b, "listen", func(_ context.Context, in string) (string, error) { <-held; return in, nil })
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		defer close(held)
		run, err := deaf.RunNoWait(t.Context(), "")
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		time.Sleep(10 * time.Second)
		reasons, err := run.Explain(t.Context())
		require.NoError(t, err)
		require.Len(t, reasons, 1)
		require.Equal(t, explain.CauseStopping, reasons[0].Cause, reasons[0].String())
		require.Contains(t, reasons[0].Text, "recorded as canceled in 20 s")
	})
}
