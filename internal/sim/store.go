package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/workflow"
)

// database is what the pods' stores share.
type database struct {
	world     *World
	downUntil time.Time        // it refuses connections
	blocked   []memory.Blocked // rows, once for each fault that chose them
}

// store is the memory store as the actors of one pod see it: each call meets
// the fate that its journey drew. A call that did not travel meets none.
type store struct {
	persistence.Store

	database  *database
	pod       *Pod
	fate      fate
	busyUntil time.Time         // the pod's pool is exhausted
	awayUntil time.Time         // what the pod's pool connects to is gone
	awayMute  bool              // and nothing says so
	calls     map[string]uint64 // journeys so far; drawn one by one, so that the others stay as they are without one
	refusals  map[string]refusals
}

// refusals are the refused calls of a kind within a second.
type refusals struct {
	since time.Time
	count int
}

// refusalsMax is how many calls of a kind a pod may have refused within a second: more
// is a loop that does not wait before it tries again. But for one such loop, none of the
// first 2,000 seeds had more than 60.
const refusalsMax = 500

// refused counts a refused call.
func (s *store) refused(name string, err error) {
	w := s.database.world
	w.note("refused", s.pod.Name, name+": "+err.Error())
	if s.refusals == nil {
		s.refusals = map[string]refusals{}
	}
	r := s.refusals[name]
	if now := w.Now(); now.Sub(r.since) >= time.Second {
		r = refusals{since: now}
	}
	r.count++
	s.refusals[name] = r
	if r.count > refusalsMax {
		w.Fail("I12", "%s of %s was refused %d times within a second: a loop; last %v", name, s.pod.Name, r.count, err)
	}
}

// meet lets a call meet its fate. wakeOf finds what the answer would wake.
func meet[T any](s *store, name string, call func() (T, error), wakeOf func(*T) *persistence.Wake) (T, error) {
	var none T
	w, place := s.database.world, s.pod.Name
	switch s.fate {
	case fateLost:
		w.note("lost", place, name)
		return none, errLost
	case fateConflict:
		w.note("conflict", place, name)
		return none, errConflict
	case fateTimeout:
		w.note("timeout", place, name)
		return none, errGivenUp
	case fateNone, fateAnswer:
	}
	defer w.noPanic(name)
	answer, err := call()
	if err != nil {
		s.refused(name, err)
		w.answered(s.pod, name, nil, err)
		return none, err
	}
	w.note("store", place, name)
	w.answered(s.pod, name, answer, nil)
	if w.options.Committed != nil {
		w.options.Committed(name)
	}
	if wakeOf != nil {
		w.bus.committed(wakeOf(&answer))
	}
	if s.fate == fateAnswer {
		w.note("unheard", place, name)
		return none, errLost
	}
	return answer, nil
}

// TriggerRuns implements persistence.Intake.
func (s *store) TriggerRuns(
	ctx context.Context, batch []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	return meet(s, "trigger_runs", func() (persistence.Triggers, error) { return s.Store.TriggerRuns(ctx, batch, take) },
		func(t *persistence.Triggers) *persistence.Wake { return &t.Wake })
}

// DrainIntake implements persistence.Intake.
func (s *store) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	return meet(s, "drain_intake", func() (persistence.Drained, error) { return s.Store.DrainIntake(ctx, limit) },
		func(d *persistence.Drained) *persistence.Wake { return &d.Wake })
}

// SendSignals implements persistence.Inbox.
func (s *store) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	return meet(s, "send_signals", func() (persistence.Signals, error) { return s.Store.SendSignals(ctx, batch) },
		func(sent *persistence.Signals) *persistence.Wake { return &sent.Wake })
}

// ClaimTasks implements persistence.Queue.
func (s *store) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	return meet(s, "claim_tasks", func() (persistence.Claimed, error) { return s.Store.ClaimTasks(ctx, request) }, nil)
}

// RecordTransitions implements persistence.Journal.
func (s *store) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	record.Transitions = slices.Clone(record.Transitions)
	for i := range record.Transitions {
		s.reporting(&record.Transitions[i])
	}
	return meet(s, "record_transitions", func() (persistence.Recorded, error) {
		recorded, err := s.Store.RecordTransitions(ctx, record)
		if told := s.database.world.options.Recorded; told != nil && err == nil {
			told(record, recorded)
		}
		return recorded, err
	},
		func(r *persistence.Recorded) *persistence.Wake { return &r.Wake })
}

// reporting lets the workload add to a report.
func (s *store) reporting(t *persistence.Transition) {
	if add := s.database.world.options.Reporting; add != nil {
		add(t)
	}
}

// RecordInTx implements persistence.Journal: as PostgreSQL's adapter does, it
// calls the step function again after a conflict.
func (s *store) RecordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (recorded persistence.Recorded, err error) {
	for range max(s.database.world.options.InTxTries, 1) {
		if recorded, err = s.recordInTx(ctx, record, fn); !errors.Is(err, errConflict) {
			break
		}
	}
	return recorded, err
}

// recordInTx is one try. The transaction is open while the step function runs;
// its commit is a call of its own, with a fate of its own.
func (s *store) recordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	if s.database.world.model.IsBlocked(record.Task.Run) {
		return await(ctx, s.pod, "record_in_tx", func() (persistence.Recorded, error) {
			return meet(s, "record_in_tx", func() (persistence.Recorded, error) {
				return persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: lifecycle.Busy}}}, nil
			}, nil)
		})
	}
	tx := s.database.world.model.Begin()
	transition, err := fn(ctx, tx)
	_ = tx.Rollback() // what was triggered in it is not simulated
	if err != nil {
		return persistence.Recorded{}, err
	}
	s.reporting(&transition)
	return await(ctx, s.pod, "record_in_tx", func() (persistence.Recorded, error) {
		return meet(s, "record_in_tx", func() (persistence.Recorded, error) {
			if s.database.world.model.IsBlocked(record.Task.Run) { // since the function was called
				return persistence.Recorded{}, fmt.Errorf("%w: a lock was not granted in time", persistence.ErrUnavailable)
			}
			recorded, err := s.Store.RecordInTx(ctx, record, func(context.Context, any) (persistence.Transition, error) { return transition, nil })
			if told := s.database.world.options.RecordedInTx; told != nil && err == nil && recorded.Answers[0].Result == lifecycle.Moved {
				told(transition)
			}
			return recorded, err
		}, func(r *persistence.Recorded) *persistence.Wake { return &r.Wake })
	})
}

// CancelRun implements persistence.Journal.
func (s *store) CancelRun(ctx context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	return meet(s, "cancel_run", func() (persistence.Canceled, error) { return s.Store.CancelRun(ctx, cancel) },
		func(c *persistence.Canceled) *persistence.Wake { return &c.Wake })
}

// JoinPod implements persistence.Lease.
func (s *store) JoinPod(ctx context.Context, info persistence.PodInfo) (int64, time.Time, error) {
	type joined struct {
		id  int64
		now time.Time
	}
	j, err := meet(s, "join_pod", func() (joined, error) {
		id, now, err := s.Store.JoinPod(ctx, info)
		if err == nil {
			s.database.world.joined++
		}
		return joined{id, now}, err
	}, nil)
	return j.id, j.now, err
}

// RenewPod implements persistence.Lease.
func (s *store) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	return meet(s, "renew_pod", func() (persistence.Renewed, error) { return s.Store.RenewPod(ctx, renewal) }, nil)
}

// LeavePod implements persistence.Lease.
func (s *store) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	return meet(s, "leave_pod", func() (persistence.Wake, error) { return s.Store.LeavePod(ctx, pod) },
		func(w *persistence.Wake) *persistence.Wake { return w })
}

// Ping implements persistence.Lease.
func (s *store) Ping(ctx context.Context, bytes int) error {
	_, err := meet(s, "probe", func() (struct{}, error) { return struct{}{}, s.Store.Ping(ctx, bytes) }, nil)
	return err
}

// FireTimers implements persistence.Timekeeping.
func (s *store) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	return meet(s, "fire_timers", func() (persistence.Fired, error) { return s.Store.FireTimers(ctx, epoch, limit) },
		func(f *persistence.Fired) *persistence.Wake { return &f.Wake })
}

// ExpirePods implements persistence.Housekeeping.
func (s *store) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	return meet(s, "expire_pods", func() (persistence.Expired, error) { return s.Store.ExpirePods(ctx, epoch, maxLost, limit, by) },
		func(e *persistence.Expired) *persistence.Wake { return &e.Wake })
}

// ParkTasks implements persistence.Housekeeping.
func (s *store) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	return meet(s, "park_tasks", func() (persistence.Parked, error) { return s.Store.ParkTasks(ctx, epoch, limit) },
		func(p *persistence.Parked) *persistence.Wake { return &p.Wake })
}

// WakeParents implements persistence.Housekeeping.
func (s *store) WakeParents(ctx context.Context, epoch int64, after workflow.TaskID, limit int) (persistence.Woken, error) {
	return meet(s, "wake_parents", func() (persistence.Woken, error) { return s.Store.WakeParents(ctx, epoch, after, limit) },
		func(w *persistence.Woken) *persistence.Wake { return &w.Wake })
}

// ArchiveRuns implements persistence.History.
func (s *store) ArchiveRuns(ctx context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	return meet(s, "archive_runs", func() (persistence.Archived, error) { return s.Store.ArchiveRuns(ctx, epoch, archive) }, nil)
}

// DropHistory implements persistence.History.
func (s *store) DropHistory(ctx context.Context, epoch int64, retention persistence.Retention, by time.Time) (persistence.Dropped, error) {
	return meet(s, "drop_history", func() (persistence.Dropped, error) { return s.Store.DropHistory(ctx, epoch, retention, by) }, nil)
}

// RotateEvents implements persistence.History.
func (s *store) RotateEvents(ctx context.Context, epoch int64, span time.Duration) (persistence.Rotated, error) {
	return meet(s, "rotate_events", func() (persistence.Rotated, error) { return s.Store.RotateEvents(ctx, epoch, span) }, nil)
}

// BumpEpoch implements persistence.Leadership.
func (s *store) BumpEpoch(ctx context.Context, holder int64) (int64, error) {
	return meet(s, "bump_epoch", func() (int64, error) { return s.Store.BumpEpoch(ctx, holder) }, nil)
}

// Run implements persistence.Runs.
func (s *store) Run(ctx context.Context, tenant string, run workflow.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	return meet(s, "run", func() (persistence.RunRow, error) { return s.Store.Run(ctx, tenant, run, without...) }, nil)
}

// EndedRuns implements persistence.Runs.
func (s *store) EndedRuns(ctx context.Context, runs []workflow.RunID) ([]workflow.RunID, error) {
	return meet(s, "ended_runs", func() ([]workflow.RunID, error) { return s.Store.EndedRuns(ctx, runs) }, nil)
}

// Payloads implements persistence.Runs.
func (s *store) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	return meet(s, "payload", func() ([][]byte, error) { return s.Store.Payloads(ctx, run, steps) }, nil)
}

// ElementsPage is how many elements of a map a call brings at most, so that a map of some tens of
// items takes several.
const ElementsPage = 8

// Elements implements persistence.Runs.
func (s *store) Elements(
	ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery,
) (persistence.ElementPage, error) {
	query.Limit = min(query.Page(), ElementsPage)
	return meet(s, "elements", func() (persistence.ElementPage, error) { return s.Store.Elements(ctx, tenant, of, query) }, nil)
}
