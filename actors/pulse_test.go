package actors

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// alone is a store whose tables are locked: it renews leases and does nothing else.
type alone struct {
	persistence.Store

	mu     sync.Mutex
	held   bool
	stored []string // progress
}

func (s *alone) RenewPod(ctx context.Context, r persistence.Renewal) (persistence.Renewed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range r.Held {
		if h.Progress != nil && !s.held {
			s.stored = append(s.stored, string(h.Progress))
		}
	}
	if !s.held {
		return s.Store.RenewPod(ctx, r)
	}
	r.Held = slices.Clone(r.Held)
	for i := range r.Held {
		r.Held[i].Progress = nil
	}
	renewed, err := s.Store.RenewPod(ctx, r)
	if err == nil {
		renewed.Lost, renewed.Canceling, renewed.Unheld, err = nil, nil, nil, persistence.ErrConflict
	}
	return renewed, err
}

func (s *alone) hold(held bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	return slices.Clone(s.stored)
}

// A pod whose lease is renewed alone works on, and what it could not store or
// compare meanwhile it stores and compares with the next renewal that can.
func TestRenewalsThatCompareNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &alone{Store: w.store}
		w.faults.Store = store
		causes := make(chan error, 1)
		w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
			if err := AttemptFrom(ctx).Heartbeat([]byte("half")); err != nil {
				return Output{}, err
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Output{}, context.Cause(ctx)
		})
		p := w.start(Config{Slots: 1})
		pass(time.Second)
		store.hold(true)
		run := w.trigger(p, "single")
		pass(time.Second)
		_, err := w.store.CancelRun(t.Context(), persistence.Cancel{Run: run, Tenant: "default", By: "test", Grace: time.Hour})
		require.NoError(t, err)
		pass(5 * time.Minute)
		require.Empty(t, store.hold(true))
		require.Empty(t, causes)
		require.Equal(t, int64(1), p.Stats().Pod, "it has its first lease still")
		store.hold(false)
		require.ErrorIs(t, <-causes, ErrCanceled)
		require.Equal(t, []string{"half"}, store.hold(false))
	})
}

// A pod that cannot record what it holds does not keep it, though it could
// renew its lease: another one takes it over.
func TestAPodWhosePoolIsAwayLetsItsTasksGo(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]int32{"refuses": proxyRefuses, "hangs": proxyHangs} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			pods, proxies := w.proxiedPods(2)
			w.completed(w.trigger(pods[1], "single"))
			run := w.trigger(pods[1], "single")
			proxies[1].state.Store(state) // before it is recorded: its first task was granted with the storing
			begun := time.Now()
			w.completed(run)
			require.Less(t, time.Since(begun), 40*time.Second)
			require.Equal(t, "lost", pods[1].Stats().Lease)
			proxies[1].state.Store(proxyWorks)
			pass(40 * time.Second)
			require.Equal(t, "live", pods[1].Stats().Lease)
			w.completed(w.trigger(pods[1], "single"))
		}))
	}
}

// A pool that answers refusals, as of a table that is locked for long, costs no pod its
// lease.
func TestALockCostsNoLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		run := w.trigger(pods[1], "single")
		proxies[1].state.Store(proxyLocked) // before it is recorded: its first task was granted with the storing
		for range 5 * 60 {
			pass(time.Second)
			require.Equal(t, "live", pods[1].Stats().Lease)
			require.True(t, pods[1].Stats().Ready)
		}
		proxies[1].state.Store(proxyWorks)
		w.completed(run)
		require.Equal(t, int64(2), pods[1].Stats().Pod, "it has its first lease still")
	})
}

// A pool that answers slowly, each call within the time of a lease, costs no pod its lease.
func TestASlowPoolCostsNoLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		proxies[1].state.Store(proxySlow)
		for range 20 {
			run := w.trigger(pods[1], "single")
			for range 30 {
				pass(time.Second)
				require.Equal(t, "live", pods[1].Stats().Lease)
			}
			w.completed(run)
		}
		require.Equal(t, int64(2), pods[1].Stats().Pod, "it has its first lease still")
		proxies[1].state.Store(proxyWorks)
		pass(10 * time.Second) // for calls under way
	})
}

// A pod whose pool answers nothing for one lease lets it go, and says that it is not
// ready, whatever is answered beside its pool. A pod that is alone keeps its lease.
func TestAPodWithoutAnyAnswerForOneLeaseLetsItGo(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]int32{"any": proxyHangs, "large": proxyGray} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			pods, proxies := w.proxiedPods(2)
			run := w.trigger(pods[1], "single")
			proxies[1].state.Store(state) // before it is recorded: its first task was granted with the storing
			lease := Config{LeaseTTL: 5 * time.Second}.silenceMax()
			pass(lease - time.Second)
			require.Equal(t, "live", pods[1].Stats().Lease)
			require.True(t, pods[1].Stats().Ready)
			w.completed(run)
			pass(3 * lease)
			require.False(t, pods[1].Stats().Ready)
			require.Equal(t, "lost", pods[1].Stats().Lease)
			require.Len(t, w.store.Snapshot().Pods, 1, "it does not join again before it can work")

			require.NoError(t, pods[0].Stop(t.Context()))
			proxies[1].state.Store(proxyWorks)
			pass(time.Minute)
			require.Equal(t, "live", pods[1].Stats().Lease)
			require.True(t, pods[1].Stats().Ready)
			w.completed(w.trigger(pods[1], "single"))
			run = w.trigger(pods[1], "single")
			proxies[1].state.Store(state)
			pass(5 * time.Minute)
			require.Equal(t, "live", pods[1].Stats().Lease, "no other pod is better off")
			require.False(t, pods[1].Stats().Ready)
			proxies[1].state.Store(proxyWorks)
			w.completed(run)
		}))
	}
}
