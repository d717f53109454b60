package simtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// shelf is what the workflows with mistakes work on.
type shelf struct {
	stock, sold int
	mails       map[string]int
	booked      map[string]bool
}

// single declares a workflow of one step.
func single(step func(ctx context.Context, in string) (string, error), options ...troupe.StepOption) *troupe.Workflow[string, string] {
	return troupe.Define("single", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "only", step, options...)
	})
}

// mistake is one that people make in step functions.
type mistake struct {
	workflow func(v *simtest.Service[shelf]) *troupe.Workflow[string, string]
	holds    func(s *shelf) bool // what shows it
	within   int                 // seeds that find it
}

func mistakes() map[string]mistake {
	type service = *simtest.Service[shelf]
	return map[string]mistake{
		"mails without a key": {func(v service) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, in string) (string, error) {
				return in, v.Do(ctx, func(s *shelf) error { s.mails[in]++; return nil })
			})
		}, func(s *shelf) bool { return s.mails["x"] <= 1 }, 50},

		"takes the id of the attempt for a key": {func(v service) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, in string) (string, error) {
				key := troupe.Task(ctx).AttemptID
				return in, v.Do(ctx, func(s *shelf) error {
					if !s.booked[key] {
						s.booked[key] = true
						s.sold++
					}
					return nil
				})
			})
		}, func(s *shelf) bool { return s.sold <= 2 }, 50},

		"looks, and acts by what it saw": {func(v service) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, in string) (string, error) {
				stock := 0
				if err := v.Do(ctx, func(s *shelf) error { stock = s.stock; return nil }); err != nil {
					return "", err
				}
				if stock == 0 {
					return "", troupe.Terminal(errors.New("sold out"))
				}
				return in, v.Do(ctx, func(s *shelf) error { s.stock = stock - 1; s.sold++; return nil })
			})
		}, func(s *shelf) bool { return s.stock+s.sold == 2 }, 50},

		"does two things and remembers neither": {func(v service) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, in string) (string, error) {
				if err := v.Do(ctx, func(s *shelf) error { s.sold++; return nil }); err != nil {
					return "", err
				}
				time.Sleep(time.Second)
				return in, v.Do(ctx, func(s *shelf) error { s.booked[in] = true; return nil })
			})
		}, func(s *shelf) bool { return s.sold <= 2 }, 50},

		"works after its timeout": {func(v service) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, in string) (string, error) {
				key := troupe.Task(ctx).IdempotencyKey
				seen := false
				if err := v.Do(context.WithoutCancel(ctx), func(s *shelf) error { seen = s.booked[key]; return nil }); err != nil || seen {
					return in, err
				}
				time.Sleep(10 * time.Second)
				return in, v.Do(context.WithoutCancel(ctx), func(s *shelf) error { s.booked[key] = true; s.sold++; return nil })
			}, troupe.AttemptTimeout(time.Second), troupe.Retry{Attempts: 3, First: time.Millisecond})
		}, func(s *shelf) bool { return s.sold <= 2 }, 50},
	}
}

func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := simtest.Find(t, simtest.Options{Seeds: m.within}, func(s *simtest.Sim) {
				state := &shelf{stock: 2, mails: map[string]int{}, booked: map[string]bool{}}
				w := simtest.Register(s, m.workflow(simtest.NewService(s, state)))
				s.Always("the shelf is right", func() bool { return m.holds(state) })
				first, second := w.Start("x"), w.Start("y")
				_, _ = first.Await()
				_, _ = second.Await()
			})
			require.NotNil(t, failure)
			require.Equal(t, `always "the shelf is right"`, failure.Promise)
			t.Log("found by seed", failure.Seed)
		})
	}
}
