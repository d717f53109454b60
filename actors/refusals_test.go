package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A database that answers everybody, and refuses what a pod cannot do without, is
// not one to be ready on; one that refuses something else is worth a word.
func TestAPodWhoseCallsAreRefusedSaysSo(t *testing.T) {
	t.Parallel()
	damaged := errors.New("invalid page in block 17")
	for name, test := range map[string]struct {
		call  string
		err   error
		ready bool
	}{
		"claims":                  {call: "claim", err: damaged},
		"records":                 {call: "record", err: damaged},
		"claims that wait a lock": {call: "claim", err: persistence.ErrConflict, ready: true},
		"archiving":               {call: "archive", err: damaged, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) {
				w.register(storetest.Single(), newGauge().work(time.Millisecond))
				p := w.start(Config{})
				pass(time.Second)
				w.faults.failBefore(func(_ context.Context, call string) error {
					if call == test.call {
						return test.err
					}
					return nil
				})
				run := w.trigger(p, "single")
				pass(5 * time.Second)
				require.Empty(t, p.Stats().Degraded)
				require.True(t, p.Stats().Ready)
				pass(2 * time.Minute)
				require.Contains(t, p.Stats().Degraded, test.err.Error())
				require.Equal(t, test.ready, p.Stats().Ready)
				w.faults.failBefore(nil)
				pass(2 * time.Minute)
				require.Empty(t, p.Stats().Degraded)
				require.True(t, p.Stats().Ready)
				w.completed(run)
			})
		})
	}
}

// lostInput is a store that has lost the inputs that are read apart.
type lostInput struct {
	persistence.Store

	asked atomic.Int64
	lost  atomic.Bool
}

func (s *lostInput) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	s.asked.Add(1)
	if s.lost.Load() {
		return nil, errors.New("missing chunk number 0")
	}
	return s.Store.Payloads(ctx, run, steps)
}

// A task whose inputs cannot be read is neither failed nor tried again and again:
// each round of it is written down.
func TestATaskWhoseInputsAreLostRests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		store := &lostInput{Store: w.store}
		store.lost.Store(true)
		w.pool = store
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		p := w.start(Config{})
		order := w.order("single")
		order.Input = []byte(`"` + strings.Repeat("x", persistence.InlinePayloadMax) + `"`)
		answers, refused, err := p.Trigger(t.Context(), []persistence.Trigger{order})
		require.NoError(t, err)
		require.Nil(t, refused)
		pass(time.Minute)
		require.LessOrEqual(t, store.asked.Load(), int64(7), "in a minute")
		require.Greater(t, store.asked.Load(), int64(1), "it is tried again")
		store.lost.Store(false)
		w.completed(answers[0].Run)
	})
}

// Refusals count only while somebody asks: whoever is sent elsewhere because the
// pod is not ready would never find out that it could be.
func TestRefusalsOfWhatNobodyAsksForAreForgotten(t *testing.T) {
	t.Parallel()
	r, now, refused := newRefusals(), time.Unix(1000, 0), errors.New("refused")
	r.note("trigger_runs", now, 0, refused)
	worst := func(after time.Duration) bool {
		why, idle := r.worst(now.Add(after))
		require.Equal(t, idle, why != "")
		return idle
	}
	require.False(t, worst(time.Minute), "one says little")
	for at := range 12 {
		r.note("trigger_runs", now.Add(time.Duration(at)*time.Second), 0, refused)
		require.Equal(t, at >= 10, worst(time.Duration(at)*time.Second))
	}
	require.False(t, worst(11*time.Second+vitalMemory))
	r.note("trigger_runs", now.Add(20*time.Second), 0, refused)
	require.False(t, worst(20*time.Second), "it begins anew")
	r.note("trigger_runs", now.Add(40*time.Second), 0, nil)
	for at := 100; at <= 160; at += 30 {
		r.note("trigger_runs", now.Add(time.Duration(at)*time.Second), 30*time.Second, refused)
	}
	require.True(t, worst(165*time.Second), "each takes long to be refused")
}

// A pod that leads no more makes none of a leader's calls, so it would not find out that
// what refused them is mended.
func TestRefusalsOfALeadersCallsEndWithItsTerm(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(), time.Unix(1000, 0)
	for range 3 {
		for _, name := range leaders() {
			r.note(name, now, storeTimeout, errors.New("refused"))
		}
		now = now.Add(refusedMax)
	}
	why, _ := r.worst(now)
	require.NotEmpty(t, why)
	r.forget(leaders())
	why, _ = r.worst(now)
	require.Empty(t, why)
}

// Calls between which minutes pass are said to be refused at once, and until the next
// ones, however they end. A conflict is none of that.
func TestRefusalsOfSeldomCallsAreSaid(t *testing.T) {
	t.Parallel()
	for _, name := range seldom() {
		r, now := newRefusals(), time.Unix(1000, 0)
		r.note(name, now, time.Second, persistence.ErrConflict)
		why, _ := r.worst(now)
		require.Empty(t, why)
		for range 2 {
			now = now.Add(dropEvery + time.Second)
			r.note(name, now, time.Second, errors.New("somebody's view"))
			for _, after := range []time.Duration{0, dropEvery} {
				why, idle := r.worst(now.Add(after))
				require.Contains(t, why, "somebody's view", name)
				require.False(t, idle)
			}
		}
		r.note(name, now, time.Second, nil)
		why, _ = r.worst(now)
		require.Empty(t, why)
	}
}
