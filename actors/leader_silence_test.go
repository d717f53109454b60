package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// proxied is a store whose pool goes through a proxy; the lease and the
// election do not.
type proxied struct {
	faulty

	state atomic.Int32
	lease atomic.Pointer[error] // why it is not renewed; nil: it is
}

func newProxied(store persistence.Store) *proxied {
	s := &proxied{faulty: faulty{Store: store}}
	s.before = s.pass
	return s
}

// pooling is the access of the pods to come through their pools; nil: the common one.
type pooling struct {
	pool     persistence.Store
	notifier cluster.Notifier
	listener cluster.Listener // of the pods to come; nil: bus
}

// proxiedNotices is the way of notices, which is that of the pool.
type proxiedNotices struct {
	cluster.Notifier

	store *proxied
}

func (n proxiedNotices) Notify(ctx context.Context, notice cluster.Notice) error {
	if err := n.store.pass(ctx, "notify"); err != nil {
		return err
	}
	return n.Notifier.Notify(ctx, notice)
}

// States of the proxy between a pool and its server.
const (
	proxyWorks int32 = iota
	proxyRefuses
	proxyHangs
	proxyLocked // it works, and a table is locked
	proxyLarge  // it swallows large answers
	proxyGray   // it passes what is small, and swallows what is large
	proxySlow   // it works, and each call takes four seconds
)

// pass is what the proxy does to a call.
func (s *proxied) pass(ctx context.Context, call string) error {
	state, large := s.state.Load(), call == "record" || call == "ping"
	switch {
	case strings.HasPrefix(call, "renew"):
		if refused := s.lease.Load(); refused != nil {
			return *refused
		}
		return nil
	case slices.Contains([]string{"trigger", "cancel", "record in tx", "leave", "purge", "payload", "ended"}, call):
		return nil
	case call == "ping" && s.count(call) > 1000:
		pass(time.Second) // or a loop of them would take no time
	}
	switch {
	case state == proxyRefuses:
		return fmt.Errorf("%w: connection refused", persistence.ErrUnavailable)
	case state == proxyLarge && call == "fire":
		return fmt.Errorf("%w: unexpected EOF", persistence.ErrUnavailable)
	case state == proxyLocked:
		pass(2 * time.Second)
		return fmt.Errorf("%w: lock timeout", persistence.ErrConflict)
	case state == proxySlow:
		pass(4 * time.Second)
	case state == proxyHangs, state == proxyGray && large:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, ctx.Err())
	}
	return nil
}

// proxiedPods starts pods that each have a proxy of their own. The first leads.
func (w *world) proxiedPods(n int) (pods []*Pod, proxies []*proxied) {
	w.t.Helper()
	w.register(storetest.Single(), newGauge().work(time.Millisecond))
	for range n {
		store := newProxied(w.store)
		w.pooling = pooling{pool: store, notifier: proxiedNotices{w.bus, store}}
		pods, proxies = append(pods, w.start(Config{Pulse: time.Second, LeaseTTL: 5 * time.Second})), append(proxies, store)
		pass(time.Second)
	}
	pass(3 * time.Second) // all pods have heard of each other
	require.True(w.t, pods[0].Stats().Leading)
	w.completed(w.trigger(pods[0], "single")) // the tenant is known: a pod is granted the first tasks of what it stores
	return pods, proxies
}

// leads waits for one of the pods to lead, and returns how long that took.
func (w *world) leads(within time.Duration, pods ...*Pod) time.Duration {
	w.t.Helper()
	begun := time.Now()
	for {
		for _, p := range pods {
			if p.Stats().Leading {
				return time.Since(begun)
			}
		}
		require.Less(w.t, time.Since(begun), within, "there is no leader")
		pass(100 * time.Millisecond)
	}
}

// A leader whose pool is away while its term lives on a connection of its own gives the
// lead away, and does not take it again before the pool answers.
func TestALeaderWhosePoolIsAwayGivesTheLeadAway(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]int32{"refuses": proxyRefuses, "hangs": proxyHangs} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			pods, proxies := w.proxiedPods(2)
			pass(time.Minute)
			require.True(t, pods[0].Stats().Leading, "there is no reason to give it away")
			proxies[0].state.Store(state)
			dead, _, err := w.store.JoinPod(t.Context(), persistence.PodInfo{Name: "dead", Slots: 1, TTL: 5 * time.Second})
			require.NoError(t, err)
			w.leads(25*time.Second, pods[1]) // it asks at least every 15 s
			require.False(t, pods[0].Stats().Leading)
			for range 60 {
				pass(time.Second)
				require.True(t, pods[1].Stats().Leading)
			}
			for _, pod := range w.store.Snapshot().Pods {
				require.NotEqual(t, dead, pod.ID, "it is taken over")
			}
			require.Contains(t, pods[0].Stats().Degraded, "through its pool")
			require.Empty(t, pods[1].Stats().Degraded)

			require.NoError(t, pods[1].Stop(t.Context()))
			pass(time.Minute)
			require.False(t, pods[0].Stats().Leading, "it could do nothing")
			proxies[0].state.Store(proxyWorks)
			w.leads(40*time.Second, pods[0])
			pass(5 * time.Second)
			require.NotContains(t, pods[0].Stats().Degraded, "pool")
		}))
	}
}

// While the pools of all pods are away there is no leader. Soon after one pool is back its
// pod leads.
func TestNobodyLeadsWhoCannot(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]int32{"refuses": proxyRefuses, "hangs": proxyHangs} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			pods, proxies := w.proxiedPods(3)
			for _, p := range proxies {
				p.state.Store(state)
			}
			pass(time.Minute)
			for range 60 {
				pass(time.Second)
				for _, p := range pods {
					require.False(t, p.Stats().Leading)
				}
			}
			proxies[2].state.Store(proxyWorks)
			w.leads(7*time.Second, pods[2])
		}))
	}
}

// A lock that is held for long makes calls fail on every pod: the leader is as good as any
// other pod.
func TestALockDoesNotMoveTheLead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		for _, p := range proxies {
			p.state.Store(proxyLocked)
		}
		for range 60 {
			pass(time.Second)
			require.True(t, pods[0].Stats().Leading)
		}
	})
}

// One connection is dead while others live: the call on it is named.
func TestACallThatIsNotAnsweredIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{})
		heal := w.hang("record")
		run := w.trigger(p, "single")
		pass(leadAwayMax / 2)
		require.Empty(t, p.Stats().Degraded)
		pass(leadAwayMax)
		require.Contains(t, p.Stats().Degraded, "has not answered")
		heal()
		w.completed(run)
		require.Empty(t, p.Stats().Degraded)
	})
}

// A leader whose calls get no answers gives the lead away, though shorter calls of its pod
// are answered.
func TestALeaderWhoseWorkIsNotAnsweredGivesTheLeadAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		proxies[0].state.Store(proxyLarge)
		w.leads(50*time.Second, pods[1]) // it asks at the sweep at the latest
		for range 20 {
			pass(time.Second)
			require.True(t, pods[1].Stats().Leading)
		}
	})
}

// A leader that cannot renew its lease leads no longer than the lease lasts, though its
// session lives.
func TestALeaderWithoutALeaseGivesTheLeadAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		refused := errors.New("permission denied")
		proxies[0].lease.Store(&refused)
		w.leads(15*time.Second, pods[1])
		require.False(t, pods[0].Stats().Leading)
	})
}

// A pod that lets other pods go first sends no probes meanwhile, also if none of them can
// lead.
func TestAPodThatLetsOthersGoFirstDoesNotAskAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pods, proxies := w.proxiedPods(2)
		proxies[0].state.Store(proxyLarge)
		proxies[1].state.Store(proxyRefuses)
		for pods[0].Stats().Leading {
			pass(time.Second)
		}
		pass(10 * time.Second)
		require.False(t, pods[0].Stats().Leading)
		require.LessOrEqual(t, proxies[0].count("ping"), 10)
		proxies[0].state.Store(proxyWorks)
		w.leads(leadUnfit, pods[0])
	})
}

// A leader that failed lets others go first: what it failed on may be its own. Alone it
// leads again.
func TestALeaderThatFailedGoesLast(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(0))
		pods := []*Pod{w.start(Config{})}
		pass(time.Second)
		kill(pods[0], "leader")
		pass(5 * time.Second)
		require.True(t, pods[0].Stats().Leading, "alone")
		pods = append(pods, w.start(Config{}))
		pass(10 * time.Second)
		for round := range 6 {
			leader, other := pods[round%2], pods[(round+1)%2]
			require.True(t, leader.Stats().Leading)
			kill(leader, "leader")
			pass(time.Second)
			require.True(t, other.Stats().Leading, "round %d", round)
			pass(time.Minute) // failures are forgotten
		}
	})
}

// A pod that hears of no leader for long says so, until it hears of one or
// leads itself.
func TestAPodSaysThatNobodyLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		other, err := w.bus.Elector(func() int64 { return 99 }).Campaign(t.Context())
		require.NoError(t, err)
		p := w.start(Config{LeaderSilence: 2 * time.Second})
		pass(7 * time.Second)
		require.NotContains(t, p.Stats().Degraded, "leader")
		pass(3 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no leader was heard of for ")
		require.True(t, p.Stats().Ready)

		require.NoError(t, other.Ping(t.Context(), cluster.Ping{Epoch: other.Epoch(), Mode: cluster.ModeNone, Pods: 2}))
		pass(time.Second)
		require.NotContains(t, p.Stats().Degraded, "leader")
		pass(30 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no leader was heard of")

		require.NoError(t, other.Resign(t.Context()))
		pass(5 * time.Second)
		require.True(t, p.Stats().Leading)
		pass(time.Minute)
		require.NotContains(t, p.Stats().Degraded, "leader")
	})
}

// noConnection is a listener that gets no connection.
type noConnection struct{}

func (noConnection) Listen(context.Context, func(), func(cluster.Notice)) error {
	return errors.New("too many connections")
}

// A pod that cannot listen does not report a missing leader: it cannot know.
func TestAPodThatHearsNobodySaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.bus.Elector(func() int64 { return 99 }).Campaign(t.Context())
		require.NoError(t, err)
		w.listener = noConnection{}
		p := w.start(Config{LeaderSilence: 2 * time.Second})
		pass(30 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no connection to listen on for ")
		require.True(t, p.Stats().Ready)
	})
}
