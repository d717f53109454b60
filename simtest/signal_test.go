package simtest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// verdict is the signal of approvals: who has said what.
type verdict struct {
	By string
	OK bool
}

var decided = troupe.NewSignal[verdict]("decided")

// approvals is prepare → decide (a wait of a day at most) → settle, which hears of the deadline.
func approvals() *troupe.Workflow[string, string] {
	return troupe.Define("approvals", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		prepare := troupe.Step0(b, "prepare", func(_ context.Context, in string) (string, error) { return in, nil }, troupe.Retry{Attempts: 50})
		decide := troupe.WaitSignal(b, "decide", decided, troupe.SkipAfter(24*time.Hour), troupe.After(prepare))
		return troupe.Step1(b, "settle", func(_ context.Context, _ string, got troupe.Opt[verdict]) (string, error) {
			v, said := got.Value()
			switch {
			case !said:
				return "escalated", nil
			case v.OK:
				return "approved by " + v.By, nil
			}
			return "declined by " + v.By, nil
		}, troupe.Maybe(decide), troupe.RunIfAllSkipped(), troupe.Retry{Attempts: 50})
	})
}

// A signal that was sent before the deadline decides, whether it came before its step or while
// that waited; without one the deadline does.
func TestSignalsAreTakenUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, approvals())
		early := w.Start("early")
		simtest.Send(early, decided, verdict{"ann", true})
		during := w.Start("during", troupe.Key("during"))
		never := w.Start("never")
		first := simtest.StartWithSignal(w, "first", decided, verdict{"dan", true})
		s.RunUntilIdle()
		s.Sometimes("a step waits", during.States()["decide"] == troupe.StateWaiting)
		simtest.Send(w.ByKey("", "during"), decided, verdict{"bob", false})
		if err := simtest.TrySend(during, decided, verdict{"eve", true}); err != nil { // no step takes it
			require.ErrorIs(s, err, troupe.ErrRunEnded)
		}
		for i, run := range []*simtest.Started[string]{early, during, never, first} {
			out, err := run.Await()
			require.NoError(s, err)
			require.Equal(s, []string{"approved by ann", "declined by bob", "escalated", "approved by dan"}[i], out)
		}
		require.Equal(s, troupe.StateSkipped, never.States()["decide"])
		require.ErrorIs(s, simtest.TrySend(never, decided, verdict{}), troupe.ErrRunEnded)
	})
}

func TestSignalsOfAPlainCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		w := simtest.Register(s, approvals())
		run := w.Start("x")
		s.RunUntilIdle()
		require.Equal(t, troupe.StateWaiting, run.States()["decide"])
		simtest.Send(run, decided, verdict{"ann", true})
		out, err := run.Await()
		require.NoError(t, err)
		require.Equal(t, "approved by ann", out)
	})
}

// endless waits for a signal without a deadline.
func endless() *troupe.Workflow[string, verdict] {
	return troupe.Define("endless", func(b *troupe.Builder[string]) troupe.StepRef[verdict] {
		return troupe.WaitSignal(b, "decide", decided)
	})
}

// A run that waits for what the test never sends is reported as that, whether the test waits for
// its end or not.
func TestASignalThatIsNeverSentIsNamed(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func(s *simtest.Sim){
		"left":    func(s *simtest.Sim) { simtest.Register(s, endless()).Start("x") },
		"awaited": func(s *simtest.Sim) { _, _ = simtest.Register(s, endless()).Start("x").Await() },
	} {
		failure := simtest.Find(t, simtest.Options{Seeds: 1, Faults: simtest.None()}, body)
		require.NotNil(t, failure, name)
		require.Contains(t, failure.Text, `step "decide" waits for the signal "decided"`, name)
	}
}

// A wait has no function that a stub could take the place of.
func TestAStubOfAWaitIsRefused(t *testing.T) {
	t.Parallel()
	failure := simtest.Find(t, simtest.Options{Seeds: 1}, func(s *simtest.Sim) {
		w := simtest.Register(s, endless())
		simtest.Stub(s, w, "decide", func(context.Context, simtest.Call[string, verdict]) (verdict, error) { return verdict{}, nil })
		w.Start("x")
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, `step "decide" waits for a signal and has no function`)
}

// A stub reads what its parents waited for.
func TestAStubReadsASignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		w := simtest.Register(s, approvals())
		simtest.Stub(s, w, "settle", func(_ context.Context, call simtest.Call[string, string]) (string, error) {
			v, _ := simtest.Parent[verdict](call, "decide")
			return strings.ToUpper(v.By), nil
		})
		run := w.Start("x")
		simtest.Send(run, decided, verdict{"ann", true})
		out, err := run.Await()
		require.NoError(t, err)
		require.Equal(t, "ANN", out)
	})
}
