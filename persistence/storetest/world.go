package storetest

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	tenantA      = "tenant-a"
	tenantB      = "tenant-b"
	defaultQueue = "default"
	leaseTTL     = time.Minute // long enough that no case outlasts it by accident
	cancelGrace  = 30 * time.Second
	maxLost      = 3
)

// world is one case: a store, the graphs registered in it, and short names for
// what cases do all the time. Its methods fail the case on any error.
type world struct {
	t       *testing.T
	ctx     context.Context
	h       Harness
	open    Open // another store
	store   persistence.Store
	numbers map[*workflow.Graph][]int32 // of handlers
	leader  int64                       // epoch
	runs    uint64                      // ids given out
	claims  uint64
}

// returned is what a call of a store returned.
type returned[T any] struct {
	value T
	err   error
}

func call[T any](value T, err error) returned[T] { return returned[T]{value, err} }

// must requires that the call succeeded.
func (r returned[T]) must(w *world) T {
	w.t.Helper()
	require.NoError(w.t, r.err)
	return r.value
}

// fails requires an error of the call.
func (r returned[T]) fails(w *world, want error) {
	w.t.Helper()
	require.ErrorIs(w.t, r.err, want)
}

func newWorld(t *testing.T, h Harness) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), h: h, store: h.Store, numbers: map[*workflow.Graph][]int32{}}
	w.leader = w.bumpEpoch()
	return w
}

// with registers graphs and returns the first.
func (w *world) with(graphs ...*workflow.Graph) *workflow.Graph {
	w.t.Helper()
	numbers := call(w.store.RegisterDefinitions(w.ctx, graphs, []string{defaultQueue, "other"})).must(w)
	for i, g := range graphs {
		w.numbers[g] = numbers[i]
	}
	return graphs[0]
}

// runID returns an id that no other run of this world has, larger than all
// before.
func (w *world) runID() workflow.RunID {
	w.runs++
	var random [10]byte
	binary.BigEndian.PutUint64(random[2:], w.runs)
	return workflow.NewRunID(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(w.runs)*time.Millisecond), random)
}

// draft returns a trigger of a run of tenantA.
func (w *world) draft(g *workflow.Graph) persistence.Trigger {
	return persistence.Trigger{
		Run: w.runID(), Definition: g.Hash, Workflow: g.Name, Tenant: tenantA, Input: []byte(`"input"`), Origin: "api",
	}
}

// drafts returns n triggers of a tenant.
func (w *world) drafts(g *workflow.Graph, tenant string, n int) []persistence.Trigger {
	list := make([]persistence.Trigger, n)
	for i := range list {
		list[i] = w.draft(g)
		list[i].Tenant = tenant
	}
	return list
}

// trigger stores triggers in batches and requires that each is new.
func (w *world) trigger(triggers ...persistence.Trigger) {
	w.t.Helper()
	for part := range slices.Chunk(triggers, persistence.TriggerBatchMax) {
		for _, answer := range w.ask(part...).Answers {
			require.Equal(w.t, persistence.Triggered, answer.Result)
		}
	}
}

// ask stores one batch, whatever the answers.
func (w *world) ask(triggers ...persistence.Trigger) persistence.Triggers {
	w.t.Helper()
	out := call(w.store.TriggerRuns(w.ctx, triggers, persistence.GrantRequest{})).must(w)
	require.Len(w.t, out.Answers, len(triggers))
	return out
}

// start stores one run of tenantA.
func (w *world) start(g *workflow.Graph) workflow.RunID {
	w.t.Helper()
	d := w.draft(g)
	w.trigger(d)
	return d.Run
}

// startWithPod stores one run of the first graph, and joins a pod.
func (w *world) startWithPod(graphs ...*workflow.Graph) (workflow.RunID, *worker) {
	w.t.Helper()
	run := w.start(w.with(graphs...))
	return run, w.pod()
}

// withPod registers graphs and joins a pod, and returns the first graph.
func (w *world) withPod(graphs ...*workflow.Graph) (*workflow.Graph, *worker) {
	w.t.Helper()
	return w.with(graphs...), w.pod()
}

// backlog stores n runs of a graph for tenantA, and joins a pod.
func (w *world) backlog(n int, g *workflow.Graph) (*workflow.Graph, *worker) {
	w.t.Helper()
	w.trigger(w.drafts(w.with(g), tenantA, n)...)
	return g, w.pod()
}

// requireTriggers requires the results of a batch of triggers.
func (w *world) requireTriggers(out persistence.Triggers, want ...persistence.TriggerResult) {
	w.t.Helper()
	var got []persistence.TriggerResult
	for _, answer := range out.Answers {
		got = append(got, answer.Result)
	}
	require.Equal(w.t, want, got)
}

// requireRecorded requires the results of a record.
func (w *world) requireRecorded(out persistence.Recorded, want ...lifecycle.Answer) {
	w.t.Helper()
	var got []lifecycle.Answer
	for _, answer := range out.Answers {
		got = append(got, answer.Result)
	}
	require.Equal(w.t, want, got)
}

func (w *world) bumpEpoch() int64 {
	w.t.Helper()
	return call(w.store.BumpEpoch(w.ctx, 1)).must(w)
}

func (w *world) advance(d time.Duration) {
	w.t.Helper()
	require.NoError(w.t, w.h.Advance(w.ctx, d))
}

func (w *world) fire() persistence.Fired {
	w.t.Helper()
	return call(w.store.FireTimers(w.ctx, w.leader, 100)).must(w)
}

func (w *world) expire() persistence.Expired {
	w.t.Helper()
	return call(w.store.ExpirePods(w.ctx, w.leader, maxLost, 1000, time.Time{})).must(w)
}

func (w *world) park() persistence.Parked {
	w.t.Helper()
	return call(w.store.ParkTasks(w.ctx, w.leader, 1000)).must(w)
}

func (w *world) drain(limit int) persistence.Drained {
	w.t.Helper()
	return call(w.store.DrainIntake(w.ctx, limit)).must(w)
}

func (w *world) cancel(run workflow.RunID) persistence.Canceled {
	w.t.Helper()
	return call(w.store.CancelRun(w.ctx, persistence.Cancel{
		Run: run, Tenant: tenantA, Reason: "no longer needed", By: "api", Grace: cancelGrace,
	})).must(w)
}

func (w *world) snapshot() snapshot.Tables {
	w.t.Helper()
	return call(w.h.Snapshot(w.ctx)).must(w)
}

func (w *world) run(id workflow.RunID) persistence.RunRow {
	w.t.Helper()
	return call(w.store.Run(w.ctx, "", id)).must(w)
}

func (w *world) requireRun(id workflow.RunID, want lifecycle.State) {
	w.t.Helper()
	require.Equal(w.t, want.String(), w.run(id).State.String(), "state of the run")
}

func (w *world) tasks(id workflow.RunID) map[string]persistence.TaskRow {
	w.t.Helper()
	rows := call(w.store.Tasks(w.ctx, "", id)).must(w)
	byName := map[string]persistence.TaskRow{}
	for _, row := range rows {
		byName[row.Name] = row
	}
	return byName
}

// states are the states of tasks by step name, as text.
type states map[string]string

func (w *world) requireTasks(id workflow.RunID, want states) {
	w.t.Helper()
	got := states{}
	for name, row := range w.tasks(id) {
		if _, asked := want[name]; asked {
			got[name] = row.State.String()
		}
	}
	require.Equal(w.t, want, got, "states of tasks")
}

// events returns the kinds of the events of a run as text, by step name; the
// run itself is "".
func (w *world) events(id workflow.RunID) map[string][]string {
	w.t.Helper()
	names := call(w.store.StepNames(w.ctx, "", id)).must(w)
	list := call(w.store.Events(w.ctx, "", id, nil, persistence.PageMax)).must(w)
	byName := map[string][]string{}
	for _, e := range list {
		name := ""
		if e.Step >= 0 {
			name = names[e.Step]
		}
		byName[name] = append(byName[name], e.Kind.String())
	}
	return byName
}

// runsOf returns the runs of grants, in order.
func runsOf(grants []persistence.Grant) []workflow.RunID {
	ids := make([]workflow.RunID, len(grants))
	for i, g := range grants {
		ids[i] = g.Task.Run
	}
	return ids
}
