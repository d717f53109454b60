package actors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// faulty is a store whose calls can be made to fail.
type faulty struct {
	persistence.Store

	mu     sync.Mutex
	before func(ctx context.Context, call string) error // fails a call; nil: none
	after  func(call string) error                      // fails a call that was carried out
	calls  []string
}

func (f *faulty) failBefore(g func(ctx context.Context, call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = g
}

func (f *faulty) failAfter(g func(call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = g
}

func through[T any](ctx context.Context, f *faulty, call string, do func() (T, error)) (T, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	var none T
	if before != nil {
		if err := before(ctx, call); err != nil {
			return none, err
		}
	}
	value, err := do()
	if err == nil && after != nil {
		if err := after(call); err != nil {
			return none, err
		}
	}
	return value, err
}

func (f *faulty) TriggerRuns(ctx context.Context, batch []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	return through(ctx, f, "trigger", func() (persistence.Triggers, error) { return f.Store.TriggerRuns(ctx, batch, take) })
}

func (f *faulty) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	return through(ctx, f, "send", func() (persistence.Signals, error) { return f.Store.SendSignals(ctx, batch) })
}

func (f *faulty) ClaimTasks(ctx context.Context, r persistence.ClaimRequest) (persistence.Claimed, error) {
	return through(ctx, f, "claim", func() (persistence.Claimed, error) { return f.Store.ClaimTasks(ctx, r) })
}

func (f *faulty) RecordTransitions(ctx context.Context, r persistence.Record) (persistence.Recorded, error) {
	return through(ctx, f, "record", func() (persistence.Recorded, error) { return f.Store.RecordTransitions(ctx, r) })
}

func (f *faulty) RecordInTx(
	ctx context.Context, r persistence.Record, do func(context.Context, any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	return through(ctx, f, "record in tx", func() (persistence.Recorded, error) { return f.Store.RecordInTx(ctx, r, do) })
}

func (f *faulty) ArchiveRuns(ctx context.Context, epoch int64, a persistence.Archive) (persistence.Archived, error) {
	return through(ctx, f, "archive", func() (persistence.Archived, error) { return f.Store.ArchiveRuns(ctx, epoch, a) })
}

func (f *faulty) CancelRun(ctx context.Context, c persistence.Cancel) (persistence.Canceled, error) {
	return through(ctx, f, "cancel", func() (persistence.Canceled, error) { return f.Store.CancelRun(ctx, c) })
}

func (f *faulty) RenewPod(ctx context.Context, r persistence.Renewal) (persistence.Renewed, error) {
	return through(ctx, f, fmt.Sprintf("renew %d", r.Pod), func() (persistence.Renewed, error) { return f.Store.RenewPod(ctx, r) })
}

func (f *faulty) JoinPod(ctx context.Context, info persistence.PodInfo) (int64, time.Time, error) {
	type joined struct {
		id  int64
		now time.Time
	}
	j, err := through(ctx, f, "join", func() (joined, error) {
		id, now, err := f.Store.JoinPod(ctx, info)
		return joined{id, now}, err
	})
	return j.id, j.now, err
}

func (f *faulty) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	return through(ctx, f, "leave", func() (persistence.Wake, error) { return f.Store.LeavePod(ctx, pod) })
}

// failing fails calls of one kind.
func failing(kind string, err error) func(context.Context, string) error {
	return func(_ context.Context, call string) error {
		if call == kind {
			return err
		}
		return nil
	}
}

func (f *faulty) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	return through(ctx, f, "drain", func() (persistence.Drained, error) { return f.Store.DrainIntake(ctx, limit) })
}

func (f *faulty) Ping(ctx context.Context, bytes int) error {
	_, err := through(ctx, f, "ping", func() (none, error) { return none{}, f.Store.Ping(ctx, bytes) })
	return err
}

func (f *faulty) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	return through(ctx, f, "fire", func() (persistence.Fired, error) { return f.Store.FireTimers(ctx, epoch, limit) })
}

func (f *faulty) ExpirePods(ctx context.Context, epoch int64, lost, limit int, by time.Time) (persistence.Expired, error) {
	return through(ctx, f, "expire", func() (persistence.Expired, error) { return f.Store.ExpirePods(ctx, epoch, lost, limit, by) })
}

func (f *faulty) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	return through(ctx, f, "park", func() (persistence.Parked, error) { return f.Store.ParkTasks(ctx, epoch, limit) })
}

func (f *faulty) RotateEvents(ctx context.Context, epoch int64, span time.Duration) (persistence.Rotated, error) {
	return through(ctx, f, "rotate", func() (persistence.Rotated, error) { return f.Store.RotateEvents(ctx, epoch, span) })
}

func (f *faulty) DropHistory(ctx context.Context, epoch int64, r persistence.Retention, by time.Time) (persistence.Dropped, error) {
	return through(ctx, f, "drop", func() (persistence.Dropped, error) { return f.Store.DropHistory(ctx, epoch, r, by) })
}

func (f *faulty) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	return through(ctx, f, "purge", func() (int, error) { return f.Store.PurgeDeadLetters(ctx, filter) })
}

func (f *faulty) Backlog(ctx context.Context) (persistence.Backlog, error) {
	return through(ctx, f, "backlog", func() (persistence.Backlog, error) { return f.Store.Backlog(ctx) })
}

func (f *faulty) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	return through(ctx, f, "payload", func() ([][]byte, error) { return f.Store.Payloads(ctx, run, steps) })
}

func (f *faulty) EndedRuns(ctx context.Context, runs []workflow.RunID) ([]workflow.RunID, error) {
	return through(ctx, f, "ended", func() ([]workflow.RunID, error) { return f.Store.EndedRuns(ctx, runs) })
}

// outage makes every store call fail until the returned function is called.
func (w *world) outage() (heal func()) {
	w.faults.failBefore(func(context.Context, string) error { return persistence.ErrUnavailable })
	return func() { w.faults.failBefore(nil) }
}

// hang makes one kind of call wait until the returned function is called.
func (w *world) hang(kind string) (heal func()) {
	gate := make(chan struct{})
	w.faults.failBefore(func(ctx context.Context, call string) error {
		if call != kind {
			return nil
		}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return persistence.ErrUnavailable
		}
	})
	return func() { close(gate) }
}

// count is how many store calls of a kind were made.
func (w *world) count(call string) int { return w.faults.count(call) }

func (f *faulty) count(call string) (n int) {
	for _, c := range f.made() {
		if c == call {
			n++
		}
	}
	return n
}

// made returns the calls in the order of their beginning.
func (f *faulty) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}
