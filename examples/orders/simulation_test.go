package orders_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/examples/orders"
	"github.com/troupe-dev/troupe/simtest"
)

// An order is simulated 200 times, on three pods that crash, freeze and lose
// their database at other moments each time.
func TestAnOrderIsPaidOnceWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{}, func(s *simtest.Sim) {
		bank := &bank{paid: map[string]int{}}
		workflow := simtest.Register(s, orders.Workflow(&mall{bank: simtest.NewService(s, bank)}))
		s.Always("the order is paid once", func() bool { return bank.taken <= 4999 })

		receipt, err := workflow.Start(orders.Order{ID: "o-1", Cents: 4999}).Await()

		if s.Sometimes("it is shipped", err == nil); err == nil {
			require.Equal(s, "shipped as track-parcel-o-1", receipt.Text)
			require.Equal(s, 4999, bank.taken)
		}
	})
}

// mall is the shop of the simulation: the one of the other tests, with a bank
// that survives crashes and takes the money once per key.
type mall struct {
	shop

	bank *simtest.Service[bank]
}

type bank struct {
	paid  map[string]int // by key
	taken int
}

func (m *mall) Charge(ctx context.Context, key string, cents int) (orders.Payment, error) {
	err := m.bank.Do(ctx, func(b *bank) error {
		b.taken += cents - b.paid[key]
		b.paid[key] = cents
		return nil
	})
	return orders.Payment{ID: "pay-" + key}, err
}
