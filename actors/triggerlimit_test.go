package actors

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// cramped is a store whose server has room for so many triggers at once.
type cramped struct {
	persistence.Store

	room    atomic.Int64
	largest atomic.Int64 // that was stored
	refused atomic.Int64 // calls
}

// cramp starts a pod whose server has room for so many triggers at once.
func (w *world) cramp(room int64) (*cramped, *Pod) {
	w.t.Helper()
	store := &cramped{Store: w.store}
	store.room.Store(room)
	w.faults.Store = store
	w.register(storetest.Single(), newGauge().work(time.Millisecond))
	return store, w.start(Config{Slots: 5})
}

// large triggers as many runs as the server has no room for, at once.
func (w *world) large(p *Pod, n int) chan *Refusal {
	answers := make(chan *Refusal, n)
	for range n {
		go func() {
			_, refused, _ := p.Trigger(w.t.Context(), slices.Repeat([]persistence.Trigger{w.order("single")}, 30))
			answers <- refused
		}()
	}
	return answers
}

func (s *cramped) TriggerRuns(ctx context.Context, rows []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	n := int64(len(rows))
	if n > s.room.Load() {
		s.refused.Add(1)
		pass(20 * time.Millisecond)
		return persistence.Triggers{}, fmt.Errorf("%w: %w", persistence.ErrNoResources, &pgconn.PgError{Code: "53400"})
	}
	s.largest.Store(max(s.largest.Load(), n))
	return s.Store.TriggerRuns(ctx, rows, take)
}

// If the server has no room for a large batch, smaller ones are stored. A question that is
// too large for it delays no other.
func TestATriggerThatIsTooLargeForTheServerHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(8)
		large := w.large(p, 1)
		pass(time.Second)
		var stored atomic.Int64
		for range 100 {
			go func() {
				w.trigger(p, "single")
				stored.Add(1)
			}()
		}
		pass(10 * time.Second)
		require.EqualValues(t, 100, stored.Load())
		store.room.Store(1000)
		pass(10 * time.Second)
		require.Nil(t, <-large)
		for waves := 0; waves < 50 && store.largest.Load() <= 30; waves++ { // how many come at once is chance
			for range 200 {
				go w.trigger(p, "single")
			}
			pass(10 * time.Second)
		}
		require.Greater(t, store.largest.Load(), int64(30), "batches are as large as they were")
	})
}

// However many questions are too large for the server, other questions are stored beside
// them. If it lacks resources for all, it is not asked at full speed.
func TestManyTriggersThatAreTooLargeForTheServerHoldUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(8)
		const many = 60
		large := w.large(p, many)
		var waited []time.Duration
		for range 1000 {
			began := time.Now()
			w.trigger(p, "single")
			waited = append(waited, time.Since(began))
			pass(20 * time.Millisecond)
		}
		require.Less(t, slices.Max(waited), 10*time.Second)
		require.Less(t, slices.Max(waited[200:]), time.Second/2, "after all of them were met")
		require.Empty(t, large)
		store.room.Store(0)
		pass(10 * time.Second)
		store.refused.Store(0)
		pass(10 * time.Second)
		require.Less(t, store.refused.Load(), int64(10))
		require.Positive(t, store.refused.Load())
		store.room.Store(1000)
		for range many {
			require.Nil(t, <-large)
		}
	})
}

// storedAtOnce requires that a trigger that waits delays no other.
func (w *world) storedAtOnce(p *Pod) {
	w.t.Helper()
	pass(20 * time.Second) // by then it is asked for every two seconds
	late := 0              // asked for in the batch with it
	for range 100 {
		began := time.Now()
		w.trigger(p, "single")
		if time.Since(began) > 50*time.Millisecond {
			late++
		}
		pass(300 * time.Millisecond)
	}
	require.LessOrEqual(w.t, late, 2)
}

// While all waiting questions rest, a new one is stored at once.
func TestATriggerThatWaitsHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(8)
		large := w.large(p, 1)
		w.storedAtOnce(p)
		require.Empty(t, large)
		store.room.Store(1000)
		require.Nil(t, <-large)
	})
}

// keyHeld is a store in which another session locks a key.
type keyHeld struct {
	persistence.Store

	held atomic.Bool
}

func (s *keyHeld) TriggerRuns(ctx context.Context, rows []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	if s.held.Load() && rows[0].Key != "" { // no test has two in one batch
		return persistence.Triggers{Answers: []persistence.TriggerAnswer{{Result: persistence.KeyBusy}}}, nil
	}
	return s.Store.TriggerRuns(ctx, rows, take)
}

// While a trigger waits for a locked key, other triggers are stored at once.
func TestATriggerWhoseKeyIsHeldHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &keyHeld{Store: w.store}
		store.held.Store(true)
		w.faults.Store = store
		p := w.single(newGauge().work(time.Millisecond), Config{Slots: 5})
		keyed := make(chan *Refusal, 1)
		go func() {
			order := w.order("single")
			order.Key = "held"
			_, refused, _ := p.Trigger(w.t.Context(), []persistence.Trigger{order})
			keyed <- refused
		}()
		w.storedAtOnce(p)
		require.Empty(t, keyed)
		store.held.Store(false)
		require.Nil(t, <-keyed)
	})
}

// A stream of questions that are too large for the server does not keep others out.
func TestTriggersThatAreTooLargeAndKeepComing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(29)
		var stored atomic.Int64
		for i := range 30 * 20 { // 200 small ones and 2 large ones a second
			for range 10 {
				go func() {
					w.trigger(p, "single")
					stored.Add(1)
				}()
			}
			if i%10 == 0 {
				w.large(p, 1)
			}
			pass(50 * time.Millisecond)
		}
		pass(time.Second)
		require.EqualValues(t, 30*20*10, stored.Load())
		store.room.Store(1000)
		pass(30 * time.Second)
	})
}

// A question that is too large for the server says nothing about other calls: the leader
// takes over tasks of dead pods, and the pod is ready.
func TestATriggerThatIsTooLargeKeepsNoPodFromItsWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, leader := w.cramp(8)
		other := w.start(Config{Slots: 5})
		pass(time.Second)
		large := w.large(leader, 1)
		for range 20 {
			pass(time.Second)
			require.True(t, leader.Stats().Ready)
			w.trigger(leader, "single")
			require.Empty(t, leader.Stats().NoWrites)
		}
		w.faults.failBefore(failing("leave", persistence.ErrUnavailable))
		other.Kill()
		pass(10 * time.Second)
		require.Equal(t, 2, w.living(leader))
		pass(30 * time.Second) // more than two leases
		require.Equal(t, 1, w.living(leader))
		store.room.Store(1000)
		for range cap(large) {
			require.Nil(t, <-large)
		}
	})
}

// living counts the living pods, of which one asks.
func (w *world) living(p *Pod) int {
	w.t.Helper()
	renewed, err := w.store.RenewPod(w.t.Context(), persistence.Renewal{Pod: p.Stats().Pod, TTL: time.Minute})
	require.NoError(w.t, err)
	return renewed.Pods
}

// Where the server has room for no trigger at all, the pod is not ready.
func TestAServerWithoutRoomForAnyTrigger(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, p := w.cramp(0)
		pass(time.Second)
		go w.trigger(p, "single")
		for range 20 {
			pass(time.Second)
			require.False(t, p.Stats().Ready)
			require.NotEmpty(t, p.Stats().NoWrites)
		}
		store.room.Store(1)
		pass(10 * time.Second)
		require.True(t, p.Stats().Ready)
	})
}
