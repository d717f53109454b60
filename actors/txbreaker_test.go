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
	"github.com/troupe-dev/troupe/workflow"
)

// closedPool is a store that cannot begin transactions of steps while it is
// closed.
type closedPool struct {
	persistence.Store

	closed atomic.Bool
	asked  atomic.Int64
}

func (s *closedPool) RecordInTx(
	ctx context.Context, r persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	s.asked.Add(1)
	if s.closed.Load() {
		return persistence.Recorded{}, fmt.Errorf("%w: closed pool", persistence.ErrTxNotBegun)
	}
	return s.Store.RecordInTx(ctx, r, fn)
}

// A pod whose pool cannot begin transactions leaves steps with InTx to other pods, reports
// it, executes the other steps, and takes them again once it can.
func TestAPodWithoutTransactionsLeavesTheirStepsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pool := &closedPool{Store: w.store}
		pool.closed.Store(true)
		w.pool = pool
		w.register(storetest.Single(), newGauge().work(time.Millisecond), func(f *StepFunction) { f.Options.InTx = true })
		w.register(storetest.Chain(2), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		pass(time.Minute) // the start is no outage
		var runs []workflow.RunID
		for range 20 {
			runs = append(runs, w.trigger(p, "single"))
		}
		pass(3 * time.Second)
		require.Contains(t, p.Stats().Degraded, "the pool is closed")
		require.True(t, p.Stats().Ready)
		w.completed(w.trigger(p, "chain2"))
		before := pool.asked.Load()
		pass(time.Minute)
		require.LessOrEqual(t, pool.asked.Load()-before, int64(5*6), "a handful every ten seconds")
		require.Positive(t, pool.asked.Load()-before, "it tries again")
		pool.closed.Store(false)
		pass(vitals.TxOpenFor + 5*time.Second)
		w.completed(runs...)
		require.Empty(t, p.Stats().Degraded)
	})
}

// emptyPool is a store that keeps steps with a transaction waiting, for as long as a pool
// that has no connection does.
type emptyPool struct {
	persistence.Store

	known atomic.Bool // that it has none
}

func (s *emptyPool) RecordInTx(
	ctx context.Context, _ persistence.Record, _ func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	patience := 10 * time.Second
	if s.known.Load() {
		patience = time.Second / 2
	}
	select {
	case <-time.After(patience):
	case <-ctx.Done():
	}
	s.known.Store(true)
	return persistence.Recorded{}, fmt.Errorf("%w: empty pool", persistence.ErrTxNotBegun)
}

// Steps that wait for a connection of an empty pool do not take all slots: other steps are
// executed as soon as always.
func TestStepsThatWaitForAnEmptyPoolLeaveSlotsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.pool = &emptyPool{Store: w.store}
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
