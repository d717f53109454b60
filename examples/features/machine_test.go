package features_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// doubling is the smallest machine there is: it starts one activity, and ends with its result. It
// needs no state.
func doubling(double func(ctx context.Context, n int) (int, error)) *statemachine.Machine[int, struct{}, int] {
	type activation = statemachine.Activation[struct{}, int]
	return statemachine.Define("doubling", func(m *statemachine.Builder[int, struct{}, int]) {
		step := statemachine.Activity(m, "double", double)
		m.OnStart(func(a *activation, in int) { step.Start(a, in) })
		statemachine.OnCompleted(m, step, func(a *activation, out int) { a.Complete(out) })
	})
}

// A machine is registered, triggered and awaited as any workflow.
func TestAMachine(t *testing.T) {
	double := func(_ context.Context, n int) (int, error) { return 2 * n, nil }
	inMemory(t, troupe.Config{}, doubling(double), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[int, int]) {
		run, err := handle.RunNoWait(t.Context(), 42)
		require.NoError(t, err)
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 84, out)
		require.Equal(t, map[string]troupe.State{"machine": troupe.StateCompleted, "double#1": troupe.StateCompleted}, statesOf(t, engine, run.ID()))
	})
}

// The same on clusters that crash: what had happened is not lost, and nothing is started twice.
func TestAMachineUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, doubling(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
		run := w.Start(42)
		out, err := run.Await()
		require.NoError(s, err)
		require.Equal(s, 84, out)
		require.Len(s, run.States(), 2)
	})
}

// An activity without Retry has five attempts: after a second, then two, four and eight, give or
// take a tenth.
func TestAnActivityIsRetried(t *testing.T) {
	attempts := &ledger[time.Time]{}
	flaky := func(ctx context.Context, n int) (int, error) {
		attempts.add(time.Now())
		if troupe.Task(ctx).Attempt < 5 {
			return 0, errors.New("busy, come back later")
		}
		return 2 * n, nil
	}
	inMemory(t, troupe.Config{}, doubling(flaky), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		out, err := handle.Run(t.Context(), 42)
		require.NoError(t, err)
		require.Equal(t, 84, out)
		began := attempts.all()
		require.Len(t, began, 5)
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			require.InDelta(t, wait, began[i+1].Sub(began[i]), float64(wait)/10+float64(50*time.Millisecond))
		}
	})
}

// delivery is what a machine remembers of a message that it has to deliver.
type delivery struct {
	Message string
	Failed  int // on how many days all attempts failed
}

// deliveries posts a message, three times within moments if it has to, and again on the next two
// days. If the receiver is gone it gives up at once.
func deliveries(post func(ctx context.Context, message string) error) *statemachine.Machine[string, delivery, string] {
	type activation = statemachine.Activation[delivery, string]
	return statemachine.Define("deliveries", func(m *statemachine.Builder[string, delivery, string]) {
		posting := statemachine.Activity(m, "post", func(ctx context.Context, message string) (struct{}, error) {
			return struct{}{}, post(ctx, message)
		}, troupe.Retry{Attempts: 3, First: 10 * time.Second, Never: []string{"gone"}})
		tomorrow := m.Timer("tomorrow")

		m.OnStart(func(a *activation, message string) {
			a.State.Message = message
			posting.Start(a, message)
		})
		statemachine.OnCompleted(m, posting, func(a *activation, _ struct{}) { a.Complete("delivered") })
		m.OnFailed(posting, func(a *activation, why *troupe.StepError) {
			a.State.Failed++
			switch {
			case why.Class == "gone":
				a.Complete("no such address")
			case a.State.Failed == 3:
				a.Fail(why)
			default:
				tomorrow.Start(a, 24*time.Hour)
			}
		})
		m.OnTimer(tomorrow, func(a *activation) { posting.Start(a, a.State.Message) })
	})
}

// Retry is for what passes by itself. The machine hears when an activity has failed for good, and
// decides.
func TestAMachineHearsOfAFailure(t *testing.T) {
	posted := &ledger[string]{}
	var answer func(posts int) error
	post := func(_ context.Context, message string) error {
		posted.add(message)
		return answer(len(posted.all()))
	}
	inMemory(t, troupe.Config{}, deliveries(post), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		answer = func(posts int) error {
			if posts < 6 {
				return errors.New("connection refused")
			}
			return nil
		}
		began := time.Now()
		text, err := handle.Run(t.Context(), "hello")
		require.NoError(t, err)
		require.Equal(t, "delivered", text)
		require.Len(t, posted.all(), 6, "three on each day")
		require.InDelta(t, 24*time.Hour, time.Since(began), float64(3*time.Minute))

		answer = func(int) error { return troupe.Class("gone", errors.New("410 Gone")) }
		text, err = handle.Run(t.Context(), "hello")
		require.NoError(t, err)
		require.Equal(t, "no such address", text)

		answer = func(int) error { return errors.New("connection refused") }
		_, err = handle.Run(t.Context(), "hello")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.ErrorContains(t, err, "connection refused")
	})
}

// mailbox is where messages arrive: one that is posted again under the same key is the same one.
type mailbox struct {
	refuses  int
	messages map[string]string
}

func TestAMachineHearsOfAFailureUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		state := &mailbox{refuses: s.Rand().IntN(12), messages: map[string]string{}}
		refuses := state.refuses
		service := simtest.NewService(s, state)
		w := simtest.Register(s, deliveries(func(ctx context.Context, message string) error {
			key := troupe.Task(ctx).IdempotencyKey
			return service.Do(ctx, func(box *mailbox) error {
				if box.refuses > 0 {
					box.refuses--
					return errors.New("connection refused")
				}
				box.messages[key] = message
				return nil
			})
		}))
		text, err := w.Start("hello").Await()
		if err != nil {
			require.ErrorIs(s, err, troupe.ErrRunFailed)
			s.Sometimes("it gave up", true)
			return
		}
		require.Equal(s, "delivered", text)
		require.NotEmpty(s, state.messages)
		s.Sometimes("it was delivered at once", refuses == 0)
		s.Sometimes("it was delivered on another day", refuses > 3)
	})
}
