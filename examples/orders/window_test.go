package orders_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/examples/orders"
	"github.com/troupe-dev/troupe/simtest"
)

func TestAnOrderWaitsForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		workflow := simtest.Register(s, orders.Workflow(&shop{}))
		run := workflow.Start(orders.Order{ID: "o-1", Cents: 4999})
		s.RunUntilIdle()
		require.Equal(t, troupe.StateSleeping, run.States()["fraud-window"])
		s.Advance(25 * time.Hour)
		require.Equal(t, troupe.StateCompleted, run.Status().State)
	})
}
