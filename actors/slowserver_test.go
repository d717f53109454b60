package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// On a server that is slow for each row, batches shrink until it ends them in time, and
// grow again once it is fast.
func TestBatchesOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		p := w.single(newGauge().work(time.Millisecond), Config{Slots: 5, TriggerTimeout: 5 * time.Minute})
		crowd := func(n int) (runs []workflow.RunID) {
			t.Helper()
			answers := make(chan workflow.RunID, n)
			for range n {
				go func() {
					stored, refused, err := p.Trigger(t.Context(), []persistence.Trigger{w.order("single")})
					if err != nil || refused != nil {
						answers <- workflow.RunID{}
						return
					}
					answers <- stored[0].Run
				}()
			}
			for range n {
				runs = append(runs, <-answers)
			}
			require.NotContains(t, runs, workflow.RunID{})
			return runs
		}
		store.each.Store(int64(200 * time.Millisecond))
		w.completed(crowd(400)...) // 80 s, in one batch
		require.Less(t, store.triggers.Load(), int64(storeTimeout/(200*time.Millisecond)))
		store.each.Store(int64(time.Millisecond)) // others come while a batch is stored
		for range 20 {
			w.completed(crowd(400)...)
		}
		require.Greater(t, store.triggers.Load(), int64(storeTimeout/(200*time.Millisecond)))
	})
}

func TestTimersOfASlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := w.slowRows()
		store.each.Store(int64(200 * time.Millisecond))
		w.register(storetest.Nap(time.Second), newGauge().work(time.Millisecond))
		p := w.start(Config{Slots: 5})
		runs := w.many(p, "nap1s", 50)
		pass(3 * time.Minute)
		w.completed(runs...)
		require.Less(t, store.timers.Load(), int64(200))
	})
}

// slowRows is a store whose server takes a while for each row.
type slowRows struct {
	persistence.Store

	tables   func() snapshot.Tables
	each     atomic.Int64 // time.Duration, of a trigger or a timer
	eachTask atomic.Int64 // of a task that is claimed, recorded or taken
	triggers atomic.Int64 // in the largest batch that was stored
	timers   atomic.Int64 // how many were asked for last
	records  atomic.Int64 // transitions in the largest batch that was recorded
	claims   atomic.Int64 // tasks of the largest claim
	granted  atomic.Int64 // with what was recorded
	died     atomic.Bool  // a pod has: its tasks have to be taken
}

// slowRows makes the store of the pods to come one.
func (w *world) slowRows() *slowRows {
	store := &slowRows{Store: w.store, tables: w.store.Snapshot}
	w.faults.Store = store
	return store
}

// ready is how many of so many tasks are in the queue.
func (s *slowRows) ready(limit int) int {
	if s.eachTask.Load() == 0 {
		return 0
	}
	return min(limit, len(s.tables().Queue))
}

func (s *slowRows) take(ctx context.Context, rows int, each *atomic.Int64) error {
	timer := time.NewTimer(time.Duration(each.Load()) * time.Duration(rows))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *slowRows) TriggerRuns(ctx context.Context, rows []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	if err := s.take(ctx, len(rows), &s.each); err != nil {
		return persistence.Triggers{}, err
	}
	s.triggers.Store(max(s.triggers.Load(), int64(len(rows))))
	return s.Store.TriggerRuns(ctx, rows, take)
}

func (s *slowRows) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	s.timers.Store(int64(limit))
	if err := s.take(ctx, limit, &s.each); err != nil {
		return persistence.Fired{}, err
	}
	return s.Store.FireTimers(ctx, epoch, limit)
}

func (s *slowRows) ClaimTasks(ctx context.Context, r persistence.ClaimRequest) (persistence.Claimed, error) {
	if err := s.take(ctx, s.ready(r.Limit), &s.eachTask); err != nil {
		return persistence.Claimed{}, err
	}
	claimed, err := s.Store.ClaimTasks(ctx, r)
	s.claims.Store(max(s.claims.Load(), int64(len(claimed.Grants))))
	return claimed, err
}

func (s *slowRows) RecordTransitions(ctx context.Context, r persistence.Record) (persistence.Recorded, error) {
	if err := s.take(ctx, len(r.Transitions), &s.eachTask); err != nil {
		return persistence.Recorded{}, err
	}
	s.records.Store(max(s.records.Load(), int64(len(r.Transitions))))
	recorded, err := s.Store.RecordTransitions(ctx, r)
	s.granted.Add(int64(len(recorded.Grants)))
	return recorded, err
}

func (s *slowRows) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	held := 0
	if s.died.Load() {
		held = len(s.tables().Claims)
	}
	if err := s.take(ctx, min(limit, held), &s.eachTask); err != nil {
		return persistence.Expired{}, err
	}
	return s.Store.ExpirePods(ctx, epoch, maxLost, limit, by)
}

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
		runs := w.many(p, "chain2", inSlots)
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
			runs = append(runs, w.many(p, "chain2", inSlots)...)
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
		runs := w.many(p, "single", inSlots)
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
		all := w.many(p, "chain3", runs)
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
