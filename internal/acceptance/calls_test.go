package acceptance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/workflow"
)

// frozen is a store that can be frozen: then each call of the embedder waits for the end
// of its context.
type frozen struct {
	persistence.Store

	is    atomic.Bool
	asked atomic.Int64 // calls of callers
	cause atomic.Pointer[error]
}

func asked[T any](ctx context.Context, f *frozen, do func() (T, error)) (T, error) {
	var none T
	f.asked.Add(1)
	if cause := f.cause.Load(); cause != nil {
		return none, *cause
	}
	if f.is.Load() {
		<-ctx.Done()
		return none, fmt.Errorf("%w: %w", persistence.ErrUnavailable, ctx.Err())
	}
	return do()
}

func (f *frozen) TriggerRuns(ctx context.Context, batch []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	return asked(ctx, f, func() (persistence.Triggers, error) { return f.Store.TriggerRuns(ctx, batch, take) })
}

func (f *frozen) Elements(ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	return asked(ctx, f, func() (persistence.ElementPage, error) { return f.Store.Elements(ctx, tenant, of, query) })
}

func (f *frozen) Machine(ctx context.Context, tenant string, run troupe.RunID, query persistence.EntryQuery) (persistence.MachineRow, error) {
	return asked(ctx, f, func() (persistence.MachineRow, error) { return f.Store.Machine(ctx, tenant, run, query) })
}

func (f *frozen) TriggerInTx(ctx context.Context, tx any, t persistence.Trigger) (persistence.TriggerAnswer, error) {
	return asked(ctx, f, func() (persistence.TriggerAnswer, error) { return f.Store.TriggerInTx(ctx, tx, t) })
}

func (f *frozen) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	return asked(ctx, f, func() (persistence.Signals, error) { return f.Store.SendSignals(ctx, batch) })
}

func (f *frozen) SendSignalInTx(ctx context.Context, tx any, signal persistence.Signal) (persistence.SignalAnswer, error) {
	return asked(ctx, f, func() (persistence.SignalAnswer, error) { return f.Store.SendSignalInTx(ctx, tx, signal) })
}

func (f *frozen) CancelRun(ctx context.Context, c persistence.Cancel) (persistence.Canceled, error) {
	return asked(ctx, f, func() (persistence.Canceled, error) { return f.Store.CancelRun(ctx, c) })
}

func (f *frozen) Run(ctx context.Context, tenant string, run troupe.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	return asked(ctx, f, func() (persistence.RunRow, error) { return f.Store.Run(ctx, tenant, run, without...) })
}

func (f *frozen) RunByKey(ctx context.Context, key persistence.RunKey) (troupe.RunID, error) {
	return asked(ctx, f, func() (troupe.RunID, error) { return f.Store.RunByKey(ctx, key) })
}

func (f *frozen) StepNames(ctx context.Context, tenant string, run troupe.RunID) ([]string, error) {
	return asked(ctx, f, func() ([]string, error) { return f.Store.StepNames(ctx, tenant, run) })
}

func (f *frozen) ListRuns(ctx context.Context, filter persistence.RunFilter) (persistence.RunList, error) {
	return asked(ctx, f, func() (persistence.RunList, error) { return f.Store.ListRuns(ctx, filter) })
}

func (f *frozen) Events(ctx context.Context, tenant string, run troupe.RunID, seen persistence.EventPosition, limit int) ([]lifecycle.Event, error) {
	return asked(ctx, f, func() ([]lifecycle.Event, error) { return f.Store.Events(ctx, tenant, run, seen, limit) })
}

func (f *frozen) Payload(ctx context.Context, tenant string, run troupe.RunID, step string, limit int) (persistence.PayloadHead, error) {
	return asked(ctx, f, func() (persistence.PayloadHead, error) { return f.Store.Payload(ctx, tenant, run, step, limit) })
}

func (f *frozen) Queues(ctx context.Context, tenant string) ([]persistence.QueueRow, error) {
	return asked(ctx, f, func() ([]persistence.QueueRow, error) { return f.Store.Queues(ctx, tenant) })
}

func (f *frozen) ParkedWork(ctx context.Context, tenant string) ([]persistence.ParkedRow, error) {
	return asked(ctx, f, func() ([]persistence.ParkedRow, error) { return f.Store.ParkedWork(ctx, tenant) })
}

func (f *frozen) Workflows(ctx context.Context) ([]persistence.DefinitionRow, error) {
	return asked(ctx, f, func() ([]persistence.DefinitionRow, error) { return f.Store.Workflows(ctx) })
}

func (f *frozen) Pods(ctx context.Context) ([]persistence.PodRow, error) {
	return asked(ctx, f, func() ([]persistence.PodRow, error) { return f.Store.Pods(ctx) })
}

func (f *frozen) Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error) {
	return asked(ctx, f, func() (*workflow.Graph, error) { return f.Store.Definition(ctx, hash) })
}

func (f *frozen) CountRuns(ctx context.Context, filter persistence.CountFilter) ([]persistence.RunCount, error) {
	return asked(ctx, f, func() ([]persistence.RunCount, error) { return f.Store.CountRuns(ctx, filter) })
}

func (f *frozen) Situation(ctx context.Context, tenant string, run troupe.RunID) (explain.Situation, error) {
	return asked(ctx, f, func() (explain.Situation, error) { return f.Store.Situation(ctx, tenant, run) })
}

func (f *frozen) ListDeadLetters(ctx context.Context, filter persistence.DeadFilter) ([]persistence.DeadLetter, error) {
	return asked(ctx, f, func() ([]persistence.DeadLetter, error) { return f.Store.ListDeadLetters(ctx, filter) })
}

func (f *frozen) CountDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	return asked(ctx, f, func() (int, error) { return f.Store.CountDeadLetters(ctx, filter) })
}

func (f *frozen) DeadLetter(ctx context.Context, tenant string, task workflow.TaskID) (persistence.DeadDetail, error) {
	return asked(ctx, f, func() (persistence.DeadDetail, error) { return f.Store.DeadLetter(ctx, tenant, task) })
}

func (f *frozen) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	return asked(ctx, f, func() (int, error) { return f.Store.PurgeDeadLetters(ctx, filter) })
}

// publicCalls are all calls that take a context and answer with an error, by name.
func publicCalls(engine *troupe.Engine, handle *troupe.Handle[string, int], run *troupe.Run[int], ref troupe.StepRef[int]) map[string]func(ctx context.Context) error {
	letters, letter := engine.DeadLetters(), run.ID().String()+"/0"
	reader, hash := engine.Reader(), strings.Repeat("00", 32)
	word := troupe.NewSignal[string]("word")
	events := func(all iter.Seq2[troupe.Event, error]) error {
		for _, err := range all {
			return err
		}
		return nil
	}
	calls := map[string]func(ctx context.Context) error{
		"Engine.Status":    func(ctx context.Context) error { _, err := engine.Status(ctx, "", run.ID()); return err },
		"Engine.Events":    func(ctx context.Context) error { return events(engine.Events(ctx, "", run.ID())) },
		"Engine.Runs":      func(ctx context.Context) error { _, err := engine.Runs(ctx, troupe.Filter{}); return err },
		"Engine.Cancel":    func(ctx context.Context) error { return engine.Cancel(ctx, "", run.ID(), "") },
		"Engine.Explain":   func(ctx context.Context) error { _, err := engine.Explain(ctx, "", run.ID()); return err },
		"Engine.RunByKey":  func(ctx context.Context) error { _, err := engine.RunByKey(ctx, "", "w", "k"); return err },
		"Handle.GetByKey":  func(ctx context.Context) error { _, err := handle.GetByKey(ctx, "", "k"); return err },
		"Handle.Run":       func(ctx context.Context) error { _, err := handle.Run(ctx, "x"); return err },
		"Handle.RunNoWait": func(ctx context.Context) error { _, err := handle.RunNoWait(ctx, "x"); return err },
		"Handle.RunMany":   func(ctx context.Context) error { _, err := handle.RunMany(ctx, []string{"x", "y"}); return err },
		"Handle.TriggerTx": func(ctx context.Context) error { _, err := handle.TriggerTx(ctx, nil, "x"); return err },
		"Handle.TriggerWithSignal": func(ctx context.Context) error {
			_, err := handle.TriggerWithSignal(ctx, "x", word.With(""), troupe.Key("k"))
			return err
		},
		"Signal.Send":       func(ctx context.Context) error { return word.Send(ctx, run, "") },
		"Signal.SendTx":     func(ctx context.Context) error { return word.SendTx(ctx, nil, run, "") },
		"OutputOf":          func(ctx context.Context) error { _, err := troupe.OutputOf(ctx, run, ref); return err },
		"Run.Await":         func(ctx context.Context) error { _, err := run.Await(ctx); return err },
		"Run.Cancel":        func(ctx context.Context) error { return run.Cancel(ctx, "") },
		"Run.Status":        func(ctx context.Context) error { _, err := run.Status(ctx); return err },
		"Run.Events":        func(ctx context.Context) error { return events(run.Events(ctx)) },
		"Run.Explain":       func(ctx context.Context) error { _, err := run.Explain(ctx); return err },
		"Reader.Run":        func(ctx context.Context) error { _, err := reader.Run(ctx, "", run.ID()); return err },
		"Reader.Runs":       func(ctx context.Context) error { _, err := reader.Runs(ctx, troupe.Filter{}); return err },
		"Reader.Counts":     func(ctx context.Context) error { _, err := reader.Counts(ctx, troupe.CountFilter{}); return err },
		"Reader.Explain":    func(ctx context.Context) error { _, err := reader.Explain(ctx, "", run.ID()); return err },
		"Reader.Payload":    func(ctx context.Context) error { _, err := reader.Payload(ctx, "", run.ID(), "", 0); return err },
		"Reader.Events":     func(ctx context.Context) error { _, _, err := reader.Events(ctx, "", run.ID(), nil, 0); return err },
		"Reader.Queues":     func(ctx context.Context) error { _, err := reader.Queues(ctx, ""); return err },
		"Reader.Parked":     func(ctx context.Context) error { _, err := reader.Parked(ctx, ""); return err },
		"Reader.Workflows":  func(ctx context.Context) error { _, err := reader.Workflows(ctx); return err },
		"Reader.Steps":      func(ctx context.Context) error { _, err := reader.Steps(ctx, hash); return err },
		"Reader.Pods":       func(ctx context.Context) error { _, err := reader.Pods(ctx); return err },
		"DeadLetters.List":  func(ctx context.Context) error { _, err := letters.List(ctx, troupe.DeadLetterFilter{}); return err },
		"DeadLetters.Count": func(ctx context.Context) error { _, err := letters.Count(ctx, troupe.DeadLetterFilter{}); return err },
		"DeadLetters.Show":  func(ctx context.Context) error { _, err := letters.Show(ctx, "", letter); return err },
		"DeadLetters.Purge": func(ctx context.Context) error { _, err := letters.Purge(ctx, troupe.DeadLetterFilter{}); return err },
		"DeadLetters.Requeue": func(ctx context.Context) error {
			_, err := letters.Requeue(ctx, "", letter, troupe.RequeueOptions{})
			return err
		},
		"DeadLetters.RequeueRun": func(ctx context.Context) error {
			_, err := letters.RequeueRun(ctx, "", run.ID(), troupe.RequeueOptions{})
			return err
		},
		"DeadLetters.RequeueAll": func(ctx context.Context) error {
			_, err := letters.RequeueAll(ctx, troupe.DeadLetterFilter{}, troupe.RequeueOptions{})
			return err
		},
	}
	maps.Copy(calls, pageCalls(engine, run))
	return calls
}

// pageCalls are those that read elements of maps, and state machines.
func pageCalls(engine *troupe.Engine, run *troupe.Run[int]) map[string]func(ctx context.Context) error {
	reader := engine.Reader()
	return map[string]func(ctx context.Context) error{
		"Run.Elements": elementsCall(func(ctx context.Context, f troupe.ElementFilter) (troupe.ElementPage, error) {
			return run.Elements(ctx, "step", f)
		}),
		"Engine.Elements": elementsCall(func(ctx context.Context, f troupe.ElementFilter) (troupe.ElementPage, error) {
			return engine.Elements(ctx, "", run.ID(), "step", f)
		}),
		"Reader.Elements": elementsCall(func(ctx context.Context, f troupe.ElementFilter) (troupe.ElementPage, error) {
			return reader.Elements(ctx, "", run.ID(), "step", f)
		}),
		"Run.Machine":           func(ctx context.Context) error { _, err := run.Machine(ctx); return err },
		"Engine.Machine":        func(ctx context.Context) error { _, err := engine.Machine(ctx, "", run.ID()); return err },
		"Reader.Machine":        func(ctx context.Context) error { _, err := reader.Machine(ctx, "", run.ID()); return err },
		"Run.MachineHistory":    func(ctx context.Context) error { _, err := run.MachineHistory(ctx, 0); return err },
		"Engine.MachineHistory": func(ctx context.Context) error { _, err := engine.MachineHistory(ctx, "", run.ID(), 0); return err },
		"Reader.MachineHistory": func(ctx context.Context) error { _, err := reader.MachineHistory(ctx, "", run.ID(), 0); return err },
	}
}

// elementsCall is a call that reads elements.
func elementsCall(read func(context.Context, troupe.ElementFilter) (troupe.ElementPage, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := read(ctx, troupe.ElementFilter{})
		return err
	}
}

// otherCalls take a context as well, and are tested elsewhere: the parts of a start, a
// stop with its stages, a probe that answers within a second, and gauges that are kept for
// ten seconds.
func otherCalls() []string {
	return []string{"Engine.Start", "Engine.Stop", "Engine.Health", "Engine.ReadGauges"}
}

// inFrozen runs a test with all public calls, on a store that can be frozen.
func inFrozen(t *testing.T, test func(t *testing.T, store *frozen, calls map[string]func(ctx context.Context) error)) {
	t.Helper()
	virtual(t, func(t *testing.T) {
		inner := memory.New(memory.Options{Now: time.Now})
		store := &frozen{Store: inner}
		engine, err := onStore(calm(), store, local.NewBus(inner))
		require.NoError(t, err)
		var ref troupe.StepRef[int]
		handle := join(t, engine, troupe.Define("frozen", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			ref = troupe.Step0(b, "step", func(ctx context.Context, _ string) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
			return ref
		}))
		run, err := handle.RunNoWait(t.Context(), "x")
		require.NoError(t, err)
		calls := publicCalls(engine, handle, run, ref)
		test(t, store, calls)
		store.is.Store(false)
		store.cause.Store(nil)
		require.NoError(t, run.Cancel(t.Context(), ""))
	})
}

// Every method that takes a context is in the table, so that a new one cannot be
// forgotten.
func TestEveryCallIsKnown(t *testing.T) {
	t.Parallel()
	calls := publicCalls(&troupe.Engine{}, &troupe.Handle[string, int]{}, &troupe.Run[int]{}, troupe.StepRef[int]{})
	names := []string{"OutputOf"} // a function
	for _, of := range []reflect.Type{
		reflect.TypeFor[*troupe.Engine](), reflect.TypeFor[*troupe.Handle[string, int]](), reflect.TypeFor[*troupe.Run[int]](), reflect.TypeFor[*troupe.DeadLetters](),
		reflect.TypeFor[*troupe.Reader](), reflect.TypeFor[*troupe.Signal[string]](),
	} {
		kind, _, _ := strings.Cut(of.Elem().Name(), "[")
		for i := range of.NumMethod() {
			method := of.Method(i)
			name := kind + "." + method.Name
			if method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() || slices.Contains(otherCalls(), name) {
				continue
			}
			names = append(names, name)
		}
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(calls)))
}

// While the database answers nothing every call ends after 30 s, whatever its context
// says, but those that wait for the end of a run.
func TestEveryCallEndsDuringAnOutage(t *testing.T) {
	inFrozen(t, func(t *testing.T, store *frozen, calls map[string]func(ctx context.Context) error) {
		store.is.Store(true)
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			began := time.Now()
			err := call(ctx)
			took := time.Since(began)
			cancel()
			if name == "Run.Await" {
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.Equal(t, time.Hour, took, name)
				continue
			}
			require.ErrorIs(t, err, troupe.ErrUnavailable, name)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, 30*time.Second, took, name)
		}
	})
}

// A call whose context has ended asks the database for nothing, and one whose context
// ends meanwhile stops waiting: both fail with the context's error and no other.
func TestACallWhoseContextHasEnded(t *testing.T) {
	inFrozen(t, func(t *testing.T, store *frozen, calls map[string]func(ctx context.Context) error) {
		why := errors.New("the request is gone")
		before := store.asked.Load()
		for name, call := range calls {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			err := call(ctx)
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, err, why, name)
			require.NotErrorIs(t, err, troupe.ErrUnavailable, name)
			require.Equal(t, before, store.asked.Load(), name)
		}
		store.is.Store(true)
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			err := call(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, troupe.ErrUnavailable, name)
			require.Equal(t, time.Second, time.Since(began), name)
		}
	})
}

// Missing tables are no outage: the error names the remedy. A statement that the server
// ended is no conflict.
func TestCallsSayWhatTheDatabaseHasAgainstThem(t *testing.T) {
	for name, c := range map[string]struct {
		cause, want error
		text        string
		waits       bool // triggers and cancels are tried on
	}{
		"no tables":       {persistence.ErrSchema, migrations.ErrBehind, "run `troupe migrate up` or migrations.Migrate", false},
		"statement ended": {persistence.ErrStatementTimeout, troupe.ErrStatementTimeout, "statement_timeout", true},
	} {
		t.Run(name, func(t *testing.T) {
			inFrozen(t, func(t *testing.T, store *frozen, calls map[string]func(ctx context.Context) error) {
				delete(calls, "Run.Await") // reads on
				cause := fmt.Errorf("%w: of the server", c.cause)
				store.cause.Store(&cause)
				for name, call := range calls {
					began := time.Now()
					err := call(t.Context())
					require.ErrorIs(t, err, c.want, name)
					require.ErrorContains(t, err, c.text, name)
					require.NotContains(t, err.Error(), "conflict", name)
					if time.Since(began) < 30*time.Second {
						require.NotErrorIs(t, err, troupe.ErrUnavailable, name)
						continue
					}
					require.True(t, c.waits, name)
				}
			})
		})
	}
}
