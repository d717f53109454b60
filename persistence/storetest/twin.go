package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Twin is two stores that do the same at the same instants: what the one
// answers the other must answer, every number and every instant of it. It
// answers with what the product says. A whole cluster may run on it.
//
// What a database says about a value that it refuses is its own affair: these
// texts are not compared.
type Twin struct {
	Model, Product persistence.Store
	// Before is called before each call on both: it sets the product's clock.
	Before func() error
	// Diverged is called with how the answers to a call differ.
	Diverged func(call, difference string)
}

var _ persistence.Store = (*Twin)(nil)

// TwinTx is a transaction in both stores.
type TwinTx struct{ Model, Product any }

// DifferenceOf lists what differs between two answers, or two states, of
// stores that share a clock; it is empty if nothing does.
func DifferenceOf(model, product any) string {
	return cmp.Diff(model, product, cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b *workflow.Graph) bool { return a == b || a != nil && b != nil && a.Hash == b.Hash }),
		cmp.Comparer(func(a, b error) bool { return errorKind(a) == errorKind(b) || kindless(a) && kindless(b) }),
		cmpopts.SortSlices(func(a, b persistence.FailedTask) bool { return byTask(a, b) < 0 }),
		textless(func(o *persistence.Outcome) (string, *string) { return o.Class, &o.Error }),
		textless(func(e *lifecycle.Event) (string, *string) { return e.Class, &e.Text }),
		textless(func(t *persistence.TaskRow) (string, *string) { return t.Class, &t.Error }),
		textless(func(r *persistence.RunRow) (string, *string) { return r.Class, &r.Error }),
		textless(func(t *explain.Task) (string, *string) { return t.Class, &t.Error }),
		textless(func(t *persistence.FailedTask) (string, *string) { return t.Class, &t.Error }),
		textless(func(l *persistence.DeadLetter) (string, *string) { return l.Class, &l.Error }),
		textless(func(l *snapshot.DeadLetter) (string, *string) { return l.Class, &l.Error }),
		textless(func(t *snapshot.Task) (string, *string) { return t.Class, &t.Error }),
	)
}

// kindless reports whether an error is none that a caller could tell apart.
func kindless(err error) bool { return err != nil && errorKind(err) == "unknown error: "+err.Error() }

// textless compares values without the text of a refusal, which a parent repeats whose child run
// has failed with it.
func textless[T any](parts func(*T) (class string, text *string)) cmp.Option {
	refused := func(v T) bool {
		class, text := parts(&v)
		return (class == persistence.ClassBadRow || class == lifecycle.ClassChildFailed) && *text != ""
	}
	return cmp.FilterValues(
		func(a, b T) bool { return refused(a) || refused(b) }, // not of what the transformer returns
		cmp.Transformer("WithoutText", func(v T) T {
			_, text := parts(&v)
			*text = ""
			return v
		}))
}

// twice makes a call on both stores. A call that the caller gives up while it
// is under way would end differently in both, so it is not given up.
func twice[T any](
	ctx context.Context, t *Twin, call string, request any, do func(context.Context, persistence.Store) (T, error),
) (T, error) {
	ctx = context.WithoutCancel(ctx)
	var none T
	if err := t.Before(); err != nil {
		return none, err
	}
	model, modelErr := do(ctx, t.Model)
	product, err := do(ctx, t.Product)
	if modelErr != nil {
		model = none // an error says it all
	}
	if err != nil {
		product = none
	}
	if diff := DifferenceOf(outcome[T]{model, errorKind(modelErr)}, outcome[T]{product, errorKind(err)}); diff != "" {
		t.Diverged(fmt.Sprintf("%s %+v", call, request), diff)
	}
	if err != nil && modelErr != nil {
		return none, modelErr // they are of one kind; texts are the database's own
	}
	return product, err
}

// twice1 makes a call of one argument on both stores.
func twice1[A, T any](
	ctx context.Context, t *Twin, call string, do func(persistence.Store, context.Context, A) (T, error), a A,
) (T, error) {
	return twice(ctx, t, call, a, func(ctx context.Context, s persistence.Store) (T, error) { return do(s, ctx, a) })
}

// twice2 makes a call of two arguments on both stores.
func twice2[A, B, T any](
	ctx context.Context, t *Twin, call string, do func(persistence.Store, context.Context, A, B) (T, error), a A, b B,
) (T, error) {
	return twice(ctx, t, call, []any{a, b}, func(ctx context.Context, s persistence.Store) (T, error) { return do(s, ctx, a, b) })
}

// TriggerRuns implements persistence.Intake.
func (t *Twin) TriggerRuns(
	ctx context.Context, batch []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	return twice2(ctx, t, "TriggerRuns", persistence.Store.TriggerRuns, batch, take)
}

// TriggerInTx implements persistence.Intake. tx is a TwinTx.
func (t *Twin) TriggerInTx(ctx context.Context, tx any, trigger persistence.Trigger) (persistence.TriggerAnswer, error) {
	both := tx.(TwinTx) //nolint:errcheck // the contract of this method
	return twice(ctx, t, "TriggerInTx", trigger, func(ctx context.Context, s persistence.Store) (persistence.TriggerAnswer, error) {
		if s == t.Model {
			return s.TriggerInTx(ctx, both.Model, trigger)
		}
		return s.TriggerInTx(ctx, both.Product, trigger)
	})
}

// SendSignals implements persistence.Inbox.
func (t *Twin) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	return twice1(ctx, t, "SendSignals", persistence.Store.SendSignals, batch)
}

// SendSignalInTx implements persistence.Inbox. tx is a TwinTx.
func (t *Twin) SendSignalInTx(ctx context.Context, tx any, signal persistence.Signal) (persistence.SignalAnswer, error) {
	both := tx.(TwinTx) //nolint:errcheck // the contract of this method
	return twice(ctx, t, "SendSignalInTx", signal, func(ctx context.Context, s persistence.Store) (persistence.SignalAnswer, error) {
		if s == t.Model {
			return s.SendSignalInTx(ctx, both.Model, signal)
		}
		return s.SendSignalInTx(ctx, both.Product, signal)
	})
}

// DrainIntake implements persistence.Intake.
func (t *Twin) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	return twice1(ctx, t, "DrainIntake", persistence.Store.DrainIntake, limit)
}

// ClaimTasks implements persistence.Queue.
func (t *Twin) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	return twice1(ctx, t, "ClaimTasks", persistence.Store.ClaimTasks, request)
}

// RecordTransitions implements persistence.Journal.
func (t *Twin) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	return twice1(ctx, t, "RecordTransitions", persistence.Store.RecordTransitions, record)
}

// RecordInTx implements persistence.Journal. fn is called with a transaction of
// each store.
func (t *Twin) RecordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	return twice(ctx, t, "RecordInTx", record, func(ctx context.Context, s persistence.Store) (persistence.Recorded, error) {
		return s.RecordInTx(ctx, record, fn)
	})
}

// CancelRun implements persistence.Journal.
func (t *Twin) CancelRun(ctx context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	return twice1(ctx, t, "CancelRun", persistence.Store.CancelRun, cancel)
}

// JoinPod implements persistence.Lease.
func (t *Twin) JoinPod(ctx context.Context, pod persistence.PodInfo) (int64, time.Time, error) {
	type joined struct {
		ID  int64
		Now time.Time
	}
	out, err := twice(ctx, t, "JoinPod", pod, func(ctx context.Context, s persistence.Store) (joined, error) {
		id, now, err := s.JoinPod(ctx, pod)
		return joined{id, now}, err
	})
	return out.ID, out.Now, err
}

// RenewPod implements persistence.Lease.
func (t *Twin) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	return twice1(ctx, t, "RenewPod", persistence.Store.RenewPod, renewal)
}

// LeavePod implements persistence.Lease.
func (t *Twin) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	return twice1(ctx, t, "LeavePod", persistence.Store.LeavePod, pod)
}

// Ping implements persistence.Lease.
func (t *Twin) Ping(ctx context.Context, bytes int) error {
	_, err := twice(ctx, t, "Ping", bytes, func(ctx context.Context, s persistence.Store) (struct{}, error) {
		return struct{}{}, s.Ping(ctx, bytes)
	})
	return err
}

// FireTimers implements persistence.Timekeeping.
func (t *Twin) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	return twice2(ctx, t, "FireTimers", persistence.Store.FireTimers, epoch, limit)
}

// ExpirePods implements persistence.Housekeeping.
func (t *Twin) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	return twice(ctx, t, "ExpirePods", limit, func(ctx context.Context, s persistence.Store) (persistence.Expired, error) {
		return s.ExpirePods(ctx, epoch, maxLost, limit, by)
	})
}

// WakeParents implements persistence.Housekeeping.
func (t *Twin) WakeParents(ctx context.Context, epoch int64, after workflow.TaskID, limit int) (persistence.Woken, error) {
	return twice(ctx, t, "WakeParents", after, func(ctx context.Context, s persistence.Store) (persistence.Woken, error) {
		return s.WakeParents(ctx, epoch, after, limit)
	})
}

// ParkTasks implements persistence.Housekeeping.
func (t *Twin) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	return twice2(ctx, t, "ParkTasks", persistence.Store.ParkTasks, epoch, limit)
}

// ArchiveRuns implements persistence.History.
func (t *Twin) ArchiveRuns(ctx context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	return twice2(ctx, t, "ArchiveRuns", persistence.Store.ArchiveRuns, epoch, archive)
}

// DropHistory implements persistence.History. In how many calls a store removes
// what it has to is its own affair.
func (t *Twin) DropHistory(
	ctx context.Context, epoch int64, retention persistence.Retention, by time.Time,
) (persistence.Dropped, error) {
	return twice(ctx, t, "DropHistory", retention, func(ctx context.Context, s persistence.Store) (persistence.Dropped, error) {
		return drop(ctx, s, epoch, retention, by)
	})
}

// RotateEvents implements persistence.History. How a store keeps its events is
// its own affair, as long as no reader sees a difference.
func (t *Twin) RotateEvents(ctx context.Context, epoch int64, span time.Duration) (persistence.Rotated, error) {
	return twice(ctx, t, "RotateEvents", span, func(ctx context.Context, s persistence.Store) (persistence.Rotated, error) {
		for {
			if out, err := s.RotateEvents(ctx, epoch, span); err != nil || !out.More {
				return persistence.Rotated{}, err
			}
		}
	})
}

// BumpEpoch implements persistence.Leadership.
func (t *Twin) BumpEpoch(ctx context.Context, holder int64) (int64, error) {
	return twice1(ctx, t, "BumpEpoch", persistence.Store.BumpEpoch, holder)
}

// Run implements persistence.Runs.
func (t *Twin) Run(ctx context.Context, tenant string, run workflow.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	return twice(ctx, t, "Run", run, func(ctx context.Context, s persistence.Store) (persistence.RunRow, error) {
		return s.Run(ctx, tenant, run, without...)
	})
}

// Tasks implements persistence.Runs.
func (t *Twin) Tasks(ctx context.Context, tenant string, run workflow.RunID, without ...persistence.Without) ([]persistence.TaskRow, error) {
	return twice(ctx, t, "Tasks", run, func(ctx context.Context, s persistence.Store) ([]persistence.TaskRow, error) {
		return s.Tasks(ctx, tenant, run, without...)
	})
}

// Elements implements persistence.Runs.
func (t *Twin) Elements(ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	return twice(ctx, t, "Elements", of, func(ctx context.Context, s persistence.Store) (persistence.ElementPage, error) {
		return s.Elements(ctx, tenant, of, query)
	})
}

// ListRuns implements persistence.RunLists.
func (t *Twin) ListRuns(ctx context.Context, filter persistence.RunFilter) (persistence.RunList, error) {
	return twice1(ctx, t, "ListRuns", persistence.Store.ListRuns, filter)
}

// CountRuns implements persistence.RunLists.
func (t *Twin) CountRuns(ctx context.Context, filter persistence.CountFilter) ([]persistence.RunCount, error) {
	return twice1(ctx, t, "CountRuns", persistence.Store.CountRuns, filter)
}

// EndedRuns implements persistence.Runs.
func (t *Twin) EndedRuns(ctx context.Context, runs []workflow.RunID) ([]workflow.RunID, error) {
	return twice1(ctx, t, "EndedRuns", persistence.Store.EndedRuns, runs)
}

// Payloads implements persistence.Runs.
func (t *Twin) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	return twice2(ctx, t, "Payloads", persistence.Store.Payloads, run, steps)
}

// Situation implements persistence.Situations.
func (t *Twin) Situation(ctx context.Context, tenant string, run workflow.RunID) (explain.Situation, error) {
	return twice2(ctx, t, "Situation", persistence.Store.Situation, tenant, run)
}

// Backlog implements persistence.Backlogs.
func (t *Twin) Backlog(ctx context.Context) (persistence.Backlog, error) {
	return twice(ctx, t, "Backlog", nil, func(ctx context.Context, s persistence.Store) (persistence.Backlog, error) {
		out, err := s.Backlog(ctx)
		out.OldTx = 0 // which the model has none of
		return out, err
	})
}

// RegisterDefinitions implements persistence.Registry.
func (t *Twin) RegisterDefinitions(ctx context.Context, graphs []*workflow.Graph, queues []string) ([][]int32, error) {
	return twice(ctx, t, "RegisterDefinitions", queues, func(ctx context.Context, s persistence.Store) ([][]int32, error) {
		return s.RegisterDefinitions(ctx, graphs, queues)
	})
}

// Definition implements persistence.Registry.
func (t *Twin) Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error) {
	return twice1(ctx, t, "Definition", persistence.Store.Definition, hash)
}

// RunByKey implements persistence.Intake.
func (t *Twin) RunByKey(ctx context.Context, key persistence.RunKey) (workflow.RunID, error) {
	return twice1(ctx, t, "RunByKey", persistence.Store.RunByKey, key)
}

// StepNames implements persistence.Registry.
func (t *Twin) StepNames(ctx context.Context, tenant string, run workflow.RunID) ([]string, error) {
	return twice2(ctx, t, "StepNames", persistence.Store.StepNames, tenant, run)
}

// ListDeadLetters implements persistence.DeadLetters.
func (t *Twin) ListDeadLetters(ctx context.Context, filter persistence.DeadFilter) ([]persistence.DeadLetter, error) {
	return twice1(ctx, t, "ListDeadLetters", persistence.Store.ListDeadLetters, filter)
}

// CountDeadLetters implements persistence.DeadLetters.
func (t *Twin) CountDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	return twice1(ctx, t, "CountDeadLetters", persistence.Store.CountDeadLetters, filter)
}

// DeadLetter implements persistence.DeadLetters.
func (t *Twin) DeadLetter(ctx context.Context, tenant string, task workflow.TaskID) (persistence.DeadDetail, error) {
	return twice2(ctx, t, "DeadLetter", persistence.Store.DeadLetter, tenant, task)
}

// RequeueDeadLetter implements persistence.DeadLetters.
func (t *Twin) RequeueDeadLetter(ctx context.Context, order persistence.RequeueOrder) (persistence.RequeueAnswer, error) {
	return twice1(ctx, t, "RequeueDeadLetter", persistence.Store.RequeueDeadLetter, order)
}

// PurgeDeadLetters implements persistence.DeadLetters.
func (t *Twin) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	return twice1(ctx, t, "PurgeDeadLetters", persistence.Store.PurgeDeadLetters, filter)
}

// Machine implements persistence.Runs.
func (t *Twin) Machine(ctx context.Context, tenant string, run workflow.RunID, query persistence.EntryQuery) (persistence.MachineRow, error) {
	return twice(ctx, t, "Machine", run, func(ctx context.Context, s persistence.Store) (persistence.MachineRow, error) {
		return s.Machine(ctx, tenant, run, query)
	})
}
