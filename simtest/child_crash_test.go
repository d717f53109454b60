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

// purchases is price → pay (a child run of charged) → ship, which is charged, too.
func purchases(service *simtest.Service[bank], child *troupe.Workflow[string, string], options ...troupe.ChildOption) *troupe.Workflow[string, string] {
	return troupe.Define("purchases", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		price := troupe.Step0(b, "price", func(_ context.Context, in string) (string, error) { return in, nil })
		pay := troupe.Child(b, "pay", child, price, options...)
		return troupe.Step1(b, "ship", func(ctx context.Context, in, paid string) (string, error) {
			key := "ship " + troupe.Task(ctx).IdempotencyKey
			return in + " " + paid, service.Do(ctx, func(b *bank) error { b.charges[key]++; return nil })
		}, pay, troupe.Retry{Attempts: 1000})
	})
}

func idempotencyKey(ctx context.Context, _ string) string { return troupe.Task(ctx).IdempotencyKey }

// Whichever step a pod crashes after, that of the parent which begins the child run among them, and
// wherever else it does: there is one child run, and each of its effects has one key.
func TestAChildRunIsOneRunWhateverCrashes(t *testing.T) {
	t.Parallel()
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 20, Most: 400}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		child := charged(service, idempotencyKey)
		simtest.Register(s, child)
		w := simtest.Register(s, purchases(service, child))
		s.Always("one key for each effect", func() bool { return len(bank.charges) <= 2 })
		out, err := w.Start("x").Await()
		require.NoError(s, err)
		require.Equal(s, "x x!", out)
		require.Len(s, bank.charges, 2)
		for _, times := range bank.charges {
			s.Sometimes("an effect is repeated", times > 1)
		}
	})
}

func TestChildRunsEndUnderFaults(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]troupe.ChildOption{"passed on": nil, "abandoned": {troupe.AbandonChild()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simtest.Run(t, simtest.Options{Seeds: 40}, func(s *simtest.Sim) {
				service, bank := newBank(s)
				child := charged(service, idempotencyKey)
				simtest.Register(s, child)
				run := simtest.Register(s, purchases(service, child, options...)).Start("x")
				s.Advance(10 * time.Minute)
				s.Sometimes("the parent waits", run.States()["pay"] == troupe.StateWaiting)
				run.Cancel("enough")
				_, err := run.Await()
				require.ErrorIs(s, err, troupe.ErrRunCanceled)
				require.LessOrEqual(s, len(bank.charges), 1)
			})
		})
	}
}

// The steps of a child run are stubbed as those of any workflow; the step that waits for it has
// no function.
func TestAStubOfAStepOfAChildRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		service, bank := newBank(s)
		child := charged(service, input)
		w := simtest.Register(s, purchases(service, child))
		c := simtest.Register(s, child)
		simtest.Stub(s, c, "charge", func(context.Context, simtest.Call[string, string]) (string, error) { return "nothing", nil })
		simtest.Stub(s, w, "ship", func(_ context.Context, call simtest.Call[string, string]) (string, error) {
			paid, ok := simtest.Parent[string](call, "pay")
			if !ok {
				return "", errors.New("the stub does not see the output of the child run")
			}
			return call.Input + " for " + paid, nil
		})
		run := w.Start("x")
		s.RunUntilIdle()
		require.Equal(t, troupe.StateWaiting, run.States()["pay"])
		s.Advance(25 * time.Hour)
		out, err := run.Await()
		require.NoError(t, err)
		require.Equal(t, "x for nothing!", out)
		require.Empty(t, bank.charges)
	})
}

func TestARunIsStuckWithItsChild(t *testing.T) {
	t.Parallel()
	failure := simtest.Find(t, simtest.Options{Seeds: 1, Faults: simtest.None()}, func(s *simtest.Sim) {
		child := endless()
		simtest.Register(s, child)
		w := simtest.Register(s, troupe.Define("asking", func(b *troupe.Builder[string]) troupe.StepRef[verdict] {
			about := troupe.Step0(b, "about", func(_ context.Context, in string) (string, error) { return in, nil })
			return troupe.Child(b, "ask", child, about)
		}))
		_, _ = w.Start("x").Await()
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Text, `step "ask" waits for a run of "endless"`)
	require.Contains(t, failure.Text, `asking-1/ask is running, step "decide" waits for the signal "decided"`)
}
