package actors

import (
	"bytes"
	"context"
	gort "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// weighed notes how much progress each renewal carries, and of whom.
type weighed struct {
	persistence.Store

	mu     sync.Mutex
	most   int
	stored map[taskKey]bool
}

func (s *weighed) RenewPod(ctx context.Context, r persistence.Renewal) (persistence.Renewed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, h := range r.Held {
		total += len(h.Progress)
		if h.Progress != nil {
			s.stored[taskKey{h.Task, h.Epoch}] = true
		}
	}
	s.most = max(s.most, total)
	return s.Store.RenewPod(ctx, r)
}

// Renewals must be in time, however much progress is reported.
func TestProgressIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		scale := &weighed{Store: w.store, stored: map[taskKey]bool{}}
		w.faults.Store = scale
		w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
			attempt := AttemptFrom(ctx)
			if err := attempt.Heartbeat(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return Output{}, err
			}
			pass(30 * time.Minute)
			return Output{}, attempt.Heartbeat(bytes.Repeat([]byte("x"), 1<<20+1))
		})
		p := w.start(Config{Slots: 10})
		first := w.trigger(p, "single")
		w.many(p, "single", 9)
		row := w.ended(first)
		require.Equal(t, classTooLarge, row.Class)
		require.Contains(t, row.Error, "the progress has 1048577 bytes")
		scale.mu.Lock()
		defer scale.mu.Unlock()
		require.LessOrEqual(t, scale.most, progressBytesMax)
		require.Len(t, scale.stored, 10, "what does not fit is stored later")
	})
}

// One group of triggers is one transaction, which cannot be of any size.
func TestTriggersOfOneCallAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Second), Config{})
		large := w.order("single")
		large.Input = bytes.Repeat([]byte("1"), 1<<20)
		batch := []persistence.Trigger{}
		for range 20 {
			batch = append(batch, large)
		}
		_, refused, err := p.Trigger(t.Context(), batch)
		require.NoError(t, err)
		require.Equal(t, LimitReached, refused.Code)
		require.Equal(t, "inputs", refused.Field)
		_, refused, err = p.Trigger(t.Context(), batch[:4])
		require.NoError(t, err)
		require.Nil(t, refused)

		_, refused, err = p.Trigger(t.Context(), make([]persistence.Trigger, persistence.TriggerBatchMax+1))
		require.NoError(t, err)
		require.Equal(t, LimitReached, refused.Code)
		require.Equal(t, "inputs", refused.Field)
		require.Equal(t, "501 triggers in one call; at most 500: make several calls", refused.Remedy)
	})
}

// Callers that give up while the database hangs leave nothing behind, however
// many they are.
func TestCallersThatGiveUpAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Second))
		const pending = 3
		p := w.start(Config{IntakePending: pending})
		heal := w.hang("trigger")
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, _, err := p.Trigger(ctx, []persistence.Trigger{w.order("single")})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			require.LessOrEqual(t, p.Stats().Pending, 2*pending)
		}
		heal()
		w.completed(w.trigger(p, "single"))
		require.LessOrEqual(t, len(w.store.Snapshot().Runs), 2, "the first was under way")
	})
}

// Looking at the input of a message is the embedder's code. Whatever it does,
// other triggers are stored, and its sender is answered.
func TestInputsThatAreHardToLookAt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Second))
		look := w.evaluate
		w.look = func(trigger *persistence.Trigger) error {
			switch string(trigger.Input) {
			case "leaves":
				gort.Goexit()
			case "panics":
				panic("on purpose")
			case "hangs":
				<-w.done
			}
			return look(trigger)
		}
		p := w.start(Config{IntakePending: 30, StuckMax: 2})
		probe := newProbe(w, p.System())
		const bad, late = messages.TriggerRefused_CODE_BAD_INPUT, messages.TriggerRefused_CODE_UNAVAILABLE
		for i, input := range []string{"leaves", "panics", "hangs", "hangs"} {
			probe.ask(p, &messages.TriggerRun{Workflow: "single", Input: []byte(input)})
			w.completed(w.trigger(p, "single"))
			pass(10 * time.Second)
			refused := as[*messages.TriggerRefused](t, probe.next())
			require.Equal(t, []messages.TriggerRefused_Code{bad, bad, late, late}[i], refused.GetCode(), input)
			require.Equal(t, "input", refused.GetField())
		}
		probe.ask(p, &messages.TriggerRun{Workflow: "single", Input: []byte("{}")})
		refused := as[*messages.TriggerRefused](t, probe.next())
		require.Equal(t, messages.TriggerRefused_CODE_OVERLOADED, refused.GetCode())
		require.NoError(t, p.Stop(t.Context()))
	})
}
