package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// A pod whose pool cannot begin transactions leaves the steps that need one to
// others, says so, goes on with the rest, and takes them again once it can.
func TestAPodWithoutTransactionsLeavesTheirStepsToOthers(t *testing.T) {
	t.Parallel()
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
		pass(unbegunPause + 5*time.Second)
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

// Steps that wait for a connection of an empty pool do not take all slots: others are
// executed as soon as always, but those that come in the first moment.
func TestStepsThatWaitForAnEmptyPoolLeaveSlotsToOthers(t *testing.T) {
	t.Parallel()
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

// Steps that were left to others are executed once there is a connection again, though
// no wake comes for them.
func TestStepsThatWereLeftToOthersAreTakenAgain(t *testing.T) {
	t.Parallel()
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

// What cannot be begun because the database is away, or was a moment ago, is tried again as
// soon as it is back.
func TestTransactionsOfAnOutageCountForNothing(t *testing.T) {
	t.Parallel()
	u, now, err := &unbegun{}, time.Unix(1000, 0), errors.New("refused")
	for range 10 {
		u.note(now, now, outage{missed: now.Add(-time.Second)}, err)
		u.note(now, now.Add(time.Minute), outage{silent: true}, err)
	}
	require.Zero(t, u.wait(now))
	require.Empty(t, u.trouble(now))
	now = now.Add(time.Hour)
	for range unbegunMax {
		u.note(now, now, outage{missed: now, ended: now.Add(-time.Second)}, err)
	}
	require.Zero(t, u.wait(now), "the server was restarted")
	for range unbegunMax {
		u.note(now, now, outage{}, err)
	}
	require.Equal(t, unbegunPause, u.wait(now))
	require.Zero(t, u.wait(now.Add(unbegunPause)))
	require.Contains(t, u.trouble(now), "refused")
	require.Empty(t, u.trouble(now.Add(unbegunMemory)))
	u.begun()
	require.Zero(t, u.wait(now), "the pool gives something")
	for range unbegunMax {
		u.note(now, now, outage{}, err)
	}
	require.Equal(t, unbegunPause, u.wait(now), "and then no more")
	u.ended()
	require.Zero(t, u.wait(now), "there is a connection again")
	u.note(now, now, outage{}, err)
	require.Empty(t, u.trouble(now), "it begins anew")
	for range unbegunMax {
		u.note(now, now, outage{missed: now}, persistence.ErrNoResources)
	}
	require.Contains(t, u.trouble(now), "raise max_connections", "a server that has no connection to give answers")
}

// A call that is refused now and then, as where no further connection can be opened, says
// nothing of a database that answers others.
func TestTransactionsThatFailBesideACallThatIsRefused(t *testing.T) {
	t.Parallel()
	u, now, tried := &unbegun{}, time.Unix(1000, 0), 0
	for range 600 { // a minute
		if u.wait(now) == 0 {
			tried++
			u.note(now, now, outage{missed: now}, errors.New("refused"))
		}
		now = now.Add(100 * time.Millisecond)
	}
	require.Contains(t, u.trouble(now), "refused")
	require.Less(t, tried, 50, "for three seconds, and then once in ten")
}
