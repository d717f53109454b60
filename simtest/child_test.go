package simtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// reviews runs approvals as a child run, and reports what it gave.
func reviews() *troupe.Workflow[string, string] {
	return troupe.Define("reviews", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil }, troupe.Retry{Attempts: 50})
		review := troupe.Child(b, "review", approvals(), read)
		return troupe.Step1(b, "report", func(_ context.Context, in, verdict string) (string, error) { return in + ": " + verdict, nil },
			review, troupe.Retry{Attempts: 50})
	})
}

// A child run ends once, and its parent hears of it, whatever fails between them.
func TestChildRunsUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, reviews())
		simtest.Register(s, approvals())
		run := w.Start("a")
		if s.Rand().IntN(3) == 0 {
			s.RunUntilIdle()
			run.Cancel("not wanted")
		}
		out, err := run.Await()
		if errors.Is(err, troupe.ErrRunCanceled) {
			s.Sometimes("the parent was canceled while its child run lasted", run.States()["review"] == troupe.StateCanceled)
			return
		}
		require.NoError(s, err)
		require.Equal(s, "a: escalated", out)
	})
}

// A stub reads the output of a child run; a step that begins one has no function to stub.
func TestAStubReadsTheOutputOfAChildRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		w := simtest.Register(s, reviews())
		simtest.Register(s, approvals())
		simtest.Stub(s, w, "report", func(_ context.Context, call simtest.Call[string, string]) (string, error) {
			text, _ := simtest.Parent[string](call, "review")
			return strings.ToUpper(text), nil
		})
		out, err := w.Start("x").Await()
		require.NoError(t, err)
		require.Equal(t, "ESCALATED", out)
	})
	failure := simtest.Find(t, simtest.Options{Seeds: 1}, func(s *simtest.Sim) {
		w := simtest.Register(s, reviews())
		simtest.Register(s, approvals())
		simtest.Stub(s, w, "review", func(context.Context, simtest.Call[string, string]) (string, error) { return "", nil })
		w.Start("x")
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, `step "review" begins a child run and has no function`)
}
