package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A pod whose pool cannot begin transactions leaves steps with InTx to other pods, reports
// it, executes the other steps, and takes them again once it can.
func TestAPodWithoutTransactionsLeavesTheirStepsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.failBefore(failing("record in tx", fmt.Errorf("%w: closed pool", persistence.ErrTxNotBegun)))
		w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) { f.Options.InTx = true })
		w.register(storetest.Chain(2), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		pass(time.Minute) // the start is no outage
		runs := w.many(p, "single", 20)
		pass(3 * time.Second)
		require.Contains(t, p.Stats().Degraded, "the pool is closed")
		require.True(t, p.Stats().Ready)
		w.completed(w.trigger(p, "chain2"))
		before := w.count("record in tx")
		pass(time.Minute)
		require.LessOrEqual(t, w.count("record in tx")-before, 5*6, "a handful every ten seconds")
		require.Greater(t, w.count("record in tx"), before, "it tries again")
		w.faults.failBefore(nil)
		pass(vitals.TxOpenFor + 5*time.Second)
		w.completed(runs...)
		require.Empty(t, p.Stats().Degraded)
	})
}

// Steps that wait for a connection of an empty pool do not take all slots: other steps are
// executed as soon as always.
func TestStepsThatWaitForAnEmptyPoolLeaveSlotsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var known atomic.Bool // that the pool has no connection: steps wait for less long then
		w.faults.failBefore(func(ctx context.Context, call string) error {
			if call != "record in tx" {
				return nil
			}
			patience := 10 * time.Second
			if known.Load() {
				patience = time.Second / 2
			}
			select {
			case <-time.After(patience):
			case <-ctx.Done():
			}
			known.Store(true)
			return fmt.Errorf("%w: empty pool", persistence.ErrTxNotBegun)
		})
		w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) { f.Options.InTx = true })
		w.register(storetest.Chain(2), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		pass(time.Minute) // the start is no outage
		for range 120 {
			w.trigger(p, "single")
			begun := time.Now()
			w.completed(w.trigger(p, "chain2"))
			require.Less(t, time.Since(begun), 2*time.Second)
			pass(time.Second / 2)
		}
		require.Contains(t, p.Stats().Degraded, "no connection to give")
		p.Kill()
	})
}

// lastConnection is a store for a pool that has one connection.
type lastConnection struct {
	persistence.Store

	conn chan struct{} // holds it while it is free
}

func (s *lastConnection) RecordInTx(
	ctx context.Context, r persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	select {
	case <-s.conn:
		defer func() { s.conn <- struct{}{} }()
		return s.Store.RecordInTx(ctx, r, fn)
	case <-time.After(10 * time.Second):
		return persistence.Recorded{}, fmt.Errorf("%w: empty pool", persistence.ErrTxNotBegun)
	}
}

// Steps that were left to other pods are executed once there is a connection again, though
// no wake comes for them.
func TestStepsThatWereLeftToOthersAreTakenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pool := &lastConnection{Store: w.store, conn: make(chan struct{}, 1)}
		pool.conn <- struct{}{}
		w.pool = pool
		w.register(storetest.Single(), newGauge().work(15*time.Second), func(f *StepFunction) { f.Options.InTx = true })
		w.register(storetest.Chain(2), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		pass(time.Minute) // the start is no outage
		began := time.Now()
		first := w.trigger(p, "single")
		pass(time.Second)
		second := w.trigger(p, "single") // gives up after ten seconds, before the first one ends
		w.completed(first)
		w.completed(second)
		require.Less(t, time.Since(began), 32*time.Second, "it does not wait until the pause is over")
	})
}
