package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

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
