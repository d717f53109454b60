package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
