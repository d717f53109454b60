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

func newWorld(t *testing.T, h Harness) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), h: h, store: h.Store, numbers: map[*workflow.Graph][]int32{}}
	w.leader = w.bumpEpoch()
	return w
}

// with registers graphs and returns the first.
func (w *world) with(graphs ...*workflow.Graph) *workflow.Graph {
	w.t.Helper()
	numbers, err := w.store.RegisterDefinitions(w.ctx, graphs, []string{defaultQueue, "other"})
	require.NoError(w.t, err)
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
	out, err := w.store.TriggerRuns(w.ctx, triggers, persistence.GrantRequest{})
	require.NoError(w.t, err)
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

func (w *world) bumpEpoch() int64 {
	w.t.Helper()
	epoch, err := w.store.BumpEpoch(w.ctx, 1)
	require.NoError(w.t, err)
	return epoch
}

func (w *world) advance(d time.Duration) {
	w.t.Helper()
	require.NoError(w.t, w.h.Advance(w.ctx, d))
}

func (w *world) fire() persistence.Fired {
	w.t.Helper()
	out, err := w.store.FireTimers(w.ctx, w.leader, 100)
	require.NoError(w.t, err)
	return out
}

func (w *world) expire() persistence.Expired {
	w.t.Helper()
	out, err := w.store.ExpirePods(w.ctx, w.leader, maxLost, 1000, time.Time{})
	require.NoError(w.t, err)
	return out
}

func (w *world) park() persistence.Parked {
	w.t.Helper()
	out, err := w.store.ParkTasks(w.ctx, w.leader, 1000)
	require.NoError(w.t, err)
	return out
}

func (w *world) drain(limit int) persistence.Drained {
	w.t.Helper()
	out, err := w.store.DrainIntake(w.ctx, limit)
	require.NoError(w.t, err)
	return out
}

func (w *world) cancel(run workflow.RunID) persistence.Canceled {
	w.t.Helper()
	out, err := w.store.CancelRun(w.ctx, persistence.Cancel{
		Run: run, Tenant: tenantA, Reason: "no longer needed", By: "api", Grace: cancelGrace,
	})
	require.NoError(w.t, err)
	return out
}

func (w *world) snapshot() snapshot.Tables {
	w.t.Helper()
	tables, err := w.h.Snapshot(w.ctx)
	require.NoError(w.t, err)
	return tables
}

func (w *world) run(id workflow.RunID) persistence.RunRow {
	w.t.Helper()
	row, err := w.store.Run(w.ctx, "", id)
	require.NoError(w.t, err)
	return row
}

func (w *world) requireRun(id workflow.RunID, want lifecycle.State) {
	w.t.Helper()
	require.Equal(w.t, want.String(), w.run(id).State.String(), "state of the run")
}

func (w *world) tasks(id workflow.RunID) map[string]persistence.TaskRow {
	w.t.Helper()
	rows, err := w.store.Tasks(w.ctx, "", id)
	require.NoError(w.t, err)
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
	rows, err := w.store.Tasks(w.ctx, "", id)
	require.NoError(w.t, err)
	list, _, err := w.store.Events(w.ctx, "", id, 0, persistence.PageMax)
	require.NoError(w.t, err)
	byName := map[string][]string{}
	for _, e := range list {
		name := ""
		if e.Step >= 0 {
			name = rows[e.Step].Name
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
