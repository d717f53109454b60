package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// once fails for each task that was not executed exactly once.
func once(t *testing.T, g *gauge, tasks int) {
	t.Helper()
	require.Len(t, g.executions(), tasks)
	g.once(t)
}

// inSlots is how many tasks are claimed, executed and recorded at once where a server
// takes 0.2 s for each: a minute, of the half that a call may take.
const (
	inSlots = 300
	eachRow = 200 * time.Millisecond
	inTime  = int64(storeTimeout / eachRow)
)

func TestCompletionsOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, g := w.slowRows(), newGauge()
		w.register(storetest.Chain(2), g.work(10*time.Second))
		p := w.start(Config{Slots: inSlots})
		var runs []workflow.RunID
		for range inSlots {
			runs = append(runs, w.trigger(p, "chain2"))
		}
		pass(time.Second) // all are claimed
		store.eachTask.Store(int64(eachRow))
		w.completed(runs...)
		require.Less(t, store.records.Load(), inTime)
		once(t, g, 2*inSlots)
		require.Empty(t, w.sent.list("TasksLost"))
		pass(time.Minute)
		require.Equal(t, inSlots, p.Stats().Free)
		store.eachTask.Store(0)
		for range 20 { // it grows again
			for range inSlots {
				runs = append(runs, w.trigger(p, "chain2"))
			}
			w.completed(runs...)
		}
		require.Greater(t, store.records.Load(), inTime)
	})
}

func TestClaimsOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store, g := w.slowRows(), newGauge()
		w.register(storetest.Single(), g.work(10*time.Second))
		var batch []persistence.Trigger
		for i := range inSlots {
			order := w.order("single")
			order.Run = workflow.NewRunID(time.Now(), [10]byte{8: byte(i >> 8), 9: byte(i)})
			batch = append(batch, order)
		}
		stored, err := w.store.TriggerRuns(t.Context(), batch, persistence.GrantRequest{})
		require.NoError(t, err)
		store.eachTask.Store(int64(eachRow))
		p := w.start(Config{Slots: inSlots})
		for _, row := range stored.Answers {
			w.completed(row.Run)
		}
		require.Less(t, store.claims.Load(), inTime)
		once(t, g, inSlots)
		pass(time.Minute)
		require.Equal(t, inSlots, p.Stats().Free)
	})
}

func TestTasksOfADeadPodOnASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		p := w.single(newGauge().work(time.Second), Config{Slots: inSlots})
		var runs []workflow.RunID
		for range inSlots {
			runs = append(runs, w.trigger(p, "single"))
		}
		pass(100 * time.Millisecond) // all are claimed
		require.Len(t, w.store.Snapshot().Claims, inSlots)
		p.Kill()
		store.died.Store(true)
		store.eachTask.Store(int64(eachRow))
		w.start(Config{Slots: inSlots})
		w.completed(runs...)
	})
}

// A batch that was recorded after all, though its answer did not come, is asked for in
// parts: its grants are executed once, and nothing is lost.
func TestARecordOfUnknownOutcomeThatTookLong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const runs = 64
		store, g := w.slowRows(), newGauge()
		w.register(storetest.Chain(3), g.work(time.Second))
		p := w.start(Config{Slots: runs, Pulse: time.Hour, LeaseTTL: 4 * time.Hour}) // no renewal tells of what was granted
		var struck, calls, lost atomic.Int64
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "record" && struck.Load() > 0 {
				calls.Add(1)
			}
			return nil
		})
		w.faults.failAfter(func(call string) error {
			if call != "record" || struck.Load() > 0 || store.records.Load() < runs/2 || store.granted.Load() == 0 {
				return nil
			}
			struck.Store(store.records.Load())
			lost.Store(store.granted.Load())
			pass(storeTimeout)
			return persistence.ErrUnavailable
		})
		var all []workflow.RunID
		for range runs {
			all = append(all, w.trigger(p, "chain3"))
		}
		pass(100 * time.Millisecond) // all are claimed
		// What ends while a call is on its way is recorded by the next: most of the first
		// steps, in the first call or in the second.
		store.eachTask.Store(int64(time.Millisecond))
		w.completed(all...)
		require.Positive(t, struck.Load())
		require.Greater(t, calls.Load(), int64(3), "in parts")
		require.Positive(t, lost.Load())
		require.LessOrEqual(t, store.granted.Load(), lost.Load()+2*runs, "what was granted is told of once more")
		once(t, g, 3*runs)
		pass(time.Minute)
		require.Equal(t, runs, p.Stats().Free)
	})
}
