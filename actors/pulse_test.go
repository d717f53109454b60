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
