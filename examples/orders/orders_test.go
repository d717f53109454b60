package orders_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/examples/orders"
)

// The tests run the real workflow on an engine in memory. Inside a bubble of
// testing/synctest time is virtual: the fraud window of a day takes no time.

func TestAValidOrderIsChargedAndShippedADayLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := &shop{failures: 2}
		handle := start(t, shop)
		began := time.Now()

		receipt, err := handle.Run(t.Context(), orders.Order{ID: "o-1", Cents: 4999})

		require.NoError(t, err)
		require.Equal(t, orders.Receipt{Order: "o-1", Text: "shipped as track-parcel-o-1"}, receipt)
		require.GreaterOrEqual(t, time.Since(began), orders.FraudWindow)
		require.Equal(t, 3, shop.calls, "two charges failed, the third went through")
		require.Len(t, shop.charged, 1, "all under one idempotency key")
		require.Empty(t, shop.told)
	})
}

func TestAnInvalidOrderIsRejectedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := &shop{}
		handle := start(t, shop)

		run, err := handle.RunNoWait(t.Context(), orders.Order{ID: "o-2"})
		require.NoError(t, err)
		receipt, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, orders.Receipt{Order: "o-2", Text: "rejected: nothing to pay"}, receipt)

		status, err := run.Status(t.Context())
		require.NoError(t, err)
		states := map[string]troupe.State{}
		for _, step := range status.Steps {
			states[step.Name] = step.State
		}
		require.Equal(t, map[string]troupe.State{
			"validate": troupe.StateCompleted, "reject": troupe.StateCompleted, "finalize": troupe.StateCompleted,
			"charge": troupe.StateSkipped, "fraud-window": troupe.StateSkipped,
			"prepare-shipment": troupe.StateSkipped, "ship": troupe.StateSkipped,
		}, states)
		require.Zero(t, shop.calls)
	})
}

func TestAnOrderThatCannotBeChargedRaisesTheAlarmOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := &shop{failures: 100}
		handle := start(t, shop)

		_, err := handle.Run(t.Context(), orders.Order{ID: "o-3", Cents: 100})

		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Equal(t, 5, shop.calls)
		require.Equal(t, []string{`order o-3: step "charge" failed: the bank does not answer`}, shop.told)
	})
}

// start runs the workflow of a shop on an engine in memory until the test ends.
func start(t *testing.T, shop orders.Shop) *troupe.Handle[orders.Order, orders.Receipt] {
	t.Helper()
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, orders.Workflow(shop))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	return handle
}

// shop is a shop whose bank fails some times.
type shop struct {
	failures int

	mu      sync.Mutex
	calls   int
	charged map[string]int // by idempotency key
	told    []string
}

func (s *shop) Charge(_ context.Context, key string, cents int) (orders.Payment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.charged == nil {
		s.charged = map[string]int{}
	}
	s.charged[key] = cents
	if s.calls <= s.failures {
		return orders.Payment{}, errors.New("the bank does not answer")
	}
	return orders.Payment{ID: "pay-" + key}, nil
}

func (s *shop) Pack(_ context.Context, order string) (orders.Parcel, error) {
	return orders.Parcel{Label: "parcel-" + order}, nil
}

func (s *shop) Ship(_ context.Context, parcel orders.Parcel) (orders.Shipment, error) {
	return orders.Shipment{Tracking: "track-" + parcel.Label}, nil
}

func (s *shop) TellAdmin(_ context.Context, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprint(text))
	return nil
}
