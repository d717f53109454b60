package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// parcels is list → weigh (a map) → sum. An item that the bank knows as a bad one fails.
func parcels(service *simtest.Service[bank], options ...troupe.MapOption) *troupe.Workflow[int, int] {
	return troupe.Define("parcels", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		list := troupe.Step0(b, "list", func(_ context.Context, n int) ([]int, error) {
			items := make([]int, n)
			for i := range items {
				items[i] = i
			}
			return items, nil
		})
		weigh := troupe.Map(b, "weigh", list, func(ctx context.Context, n, item int) (int, error) {
			task := troupe.Task(ctx)
			if task.Item != item {
				return 0, troupe.Terminal(fmt.Errorf("element %d has item %d", task.Item, item))
			}
			bad := false
			err := service.Do(ctx, func(b *bank) error {
				b.charges[task.IdempotencyKey]++
				bad = b.charges["bad "+task.Step] > 0
				return nil
			})
			if bad && err == nil {
				err = troupe.Terminal(errors.New("no scales"))
			}
			return item * 10, err
		}, options...)
		return troupe.Step1(b, "sum", func(_ context.Context, _ int, weights []int) (int, error) {
			sum := 0
			for _, w := range weights {
				sum += w
			}
			return sum, nil
		}, weigh)
	})
}

// Whichever element a pod crashes after, and wherever else it does: each element has one key, and
// its result is gathered once.
func TestAMapWhateverCrashes(t *testing.T) {
	t.Parallel()
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 20, Most: 300}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, parcels(service, troupe.MaxConcurrency(2), troupe.Retry{Attempts: 1000}))
		s.Always("one key for each element", func() bool { return len(bank.charges) <= 5 })
		out, err := w.Start(5).Await()
		require.NoError(s, err)
		require.Equal(s, 100, out)
		require.Len(s, bank.charges, 5)
		for _, times := range bank.charges {
			s.Sometimes("an element is repeated", times > 1)
		}
	})
}

// A run that continues one whose map has failed executes the elements that had not completed, under
// the same keys.
func TestARequeuedMap(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 30}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, parcels(service, troupe.MaxConcurrency(2), troupe.Retry{Attempts: 1000}))
		bank.charges["bad weigh[3]"] = 1
		run := w.Start(8)
		_, err := run.Await()
		require.ErrorIs(s, err, troupe.ErrElementFailed)
		require.ErrorContains(s, err, "element 3 of 8 failed: no scales")
		before := map[string]int{}
		page := map[int]bool{}
		for _, e := range elementsOf(s, run) {
			page[e.Item] = e.State == troupe.StateCompleted
			before[e.Name] = bank.charges[run.ID().String()+"/"+e.Name]
		}
		delete(bank.charges, "bad weigh[3]")
		out, err := run.Requeue().Await()
		require.NoError(s, err)
		require.Equal(s, 280, out)
		require.Len(s, bank.charges, 8)
		for item, completed := range page {
			name := fmt.Sprintf("weigh[%d]", item)
			if completed {
				require.Equal(s, before[name], bank.charges[run.ID().String()+"/"+name], name)
			}
		}
	})
}

func elementsOf(s *simtest.Sim, run *simtest.Started[int]) []troupe.ElementStatus {
	page := run.Elements("weigh", troupe.ElementFilter{})
	require.Zero(s, page.Next)
	return page.Elements
}

// A stub is called for each element, and reads its item.
func TestAStubOfAMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		service, bank := newBank(s)
		w := simtest.Register(s, parcels(service))
		simtest.Stub(s, w, "weigh", func(ctx context.Context, call simtest.Call[int, int]) (int, error) {
			item, ok := simtest.Item[int](call)
			if _, text := simtest.Item[string](call); !ok || text || call.Input != 4 {
				return 0, errors.New("the stub does not see its item")
			}
			if item == 3 {
				return call.Real(ctx)
			}
			return item, nil
		})
		simtest.Stub(s, w, "sum", func(_ context.Context, call simtest.Call[int, int]) (int, error) {
			weights, _ := simtest.Parent[[]int](call, "weigh")
			_, none := simtest.Item[int](call)
			if none {
				return 0, errors.New("a step is no element")
			}
			return weights[0] + weights[1] + weights[2] + weights[3], nil
		})
		out, err := w.Start(4).Await()
		require.NoError(t, err)
		require.Equal(t, 0+1+2+30, out)
		require.Len(t, bank.charges, 1)
	})
}

// What keeps a run from its end is the element, and its map waits for it.
func TestARunIsStuckWithItsMap(t *testing.T) {
	t.Parallel()
	failure := simtest.Find(t, simtest.Options{Seeds: 1, Faults: simtest.None(), Patience: time.Minute}, func(s *simtest.Sim) {
		service, _ := newBank(s)
		w := simtest.Register(s, parcels(service, troupe.Queue("nowhere")))
		simtest.Stub(s, w, "weigh", func(ctx context.Context, _ simtest.Call[int, int]) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		_, _ = w.Start(2).Await()
	})
	require.NotNil(t, failure)
	require.True(t, strings.Contains(failure.Text, `step "weigh" waits for its elements`), failure.Text)
}
