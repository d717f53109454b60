package memory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// The parents of familyTables, by how their steps and child runs stand. Their child runs have the
// numbers of childOf.
const (
	waits     byte = 1 // and its child run is running
	untold    byte = 2 // its child run has completed, and it will be told
	canceled  byte = 3 // its child run will be told
	completed byte = 4 // with its child run
	careless  byte = 5 // canceled, its child run is not concerned
)

func childOf(parent byte) byte { return 10 + parent }

// TestCheckFindsWhatIsWrongInFamilies is TestCheckFindsWhatIsWrong for child runs (I20).
func TestCheckFindsWhatIsWrongInFamilies(t *testing.T) {
	t.Parallel()
	child := func(parent byte, spoil func(r *snapshot.Run)) func(s *snapshot.Tables) {
		return func(s *snapshot.Tables) { spoil(runIn(s, childOf(parent))) }
	}
	step := func(parent byte, spoil func(t *snapshot.Task)) func(s *snapshot.Tables) {
		return func(s *snapshot.Tables) { spoil(runIn(s, parent).Task(1)) }
	}
	nothingTells := func(s *snapshot.Tables) { s.Signaled = nil }
	for name, c := range map[string]struct {
		spoil func(s *snapshot.Tables)
		want  string
	}{
		"no child run":        {child(waits, func(r *snapshot.Run) { r.Family = persistence.Family{} }), "I20: run .*01 step 1 waits for a child run that does not exist"},
		"two child runs":      {child(waits, func(r *snapshot.Run) { r.Family.Parent.Run[15] = untold }), "I20: runs .* are children of run .*02 step 1"},
		"child of a function": {child(waits, func(r *snapshot.Run) { r.Family.Parent.Step = 0 }), "I20: run .* step 0, which begins none"},
		"child of no step":    {child(waits, func(r *snapshot.Run) { r.Family.Parent.Step = 99 }), "I20: run .* step 99, which begins none"},
		"nothing waits":       {step(waits, func(t *snapshot.Task) { t.State = lifecycle.Completed }), "I20: run .* is running, and the step that waits for it is completed"},
		"not begun yet":       {step(waits, func(t *snapshot.Task) { t.State = lifecycle.Queued }), "I20: run .* exists, and the step that began it is queued"},
		"depth":               {child(waits, func(r *snapshot.Run) { r.Core.Depth++ }), "I20: run .* has depth 2, its parent 0"},
		"too deep": {func(s *snapshot.Tables) {
			runIn(s, waits).Core.Depth, runIn(s, childOf(waits)).Core.Depth = lifecycle.DepthMax, lifecycle.DepthMax+1
		}, "I20: run .* has depth 33"},
		"abandoned":             {child(waits, func(r *snapshot.Run) { r.Family.Abandons = true }), "I20: run .* is abandoned: true"},
		"parent is not told":    {nothingTells, "I20: run .* has ended, run .*02 waits for it, and nothing will tell it"},
		"child run is not told": {nothingTells, "I20: run .*0d continues, the step that waits for it was canceled"},
		"asked to stop": {child(careless, func(r *snapshot.Run) {
			r.Core.Events++
			r.Events = append(r.Events, lifecycle.Event{Step: lifecycle.RunStep, N: r.Core.Events, Kind: lifecycle.EventCancelRequested, By: "parent"})
		}), "I20: run .* was asked to stop, and the step that began it is canceled"},
		"asked to stop early": {child(waits, func(r *snapshot.Run) {
			r.Events = append(r.Events, lifecycle.Event{Step: lifecycle.RunStep, Kind: lifecycle.EventCancelRequested, By: "parent"})
		}), "I20: run .* was asked to stop, and the step that began it is waiting"},
		"another output": {step(completed, func(t *snapshot.Task) { t.Output = []byte("2") }), "I20: run .* completed with another output"},
		"another end":    {step(completed, func(t *snapshot.Task) { t.State = lifecycle.Failed }), "I20: run .* is completed, and the step that waited for it is failed"},
		"no output": {
			child(completed, func(r *snapshot.Run) { r.Task(0).State = lifecycle.Skipped }),
			"I20: run .* is completed, and the step that waited for it is completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFound(t, familyTables(t), c.spoil, c.want)
		})
	}
}

func runIn(s *snapshot.Tables, n byte) *snapshot.Run {
	at := slices.IndexFunc(s.Runs, func(r snapshot.Run) bool { return r.ID == workflow.RunID{15: n} })
	return &s.Runs[at]
}

// familyTables is one run of each kind with its child run.
func familyTables(t *testing.T) snapshot.Tables {
	t.Helper()
	h := newClock().harness()
	parent, abandoning, child := storetest.Parent(), storetest.Careless(), storetest.Single()
	pod, request := join(t, h.Store, parent, abandoning, child)
	triggers := []persistence.Trigger{trigger(abandoning, "a", careless)}
	for _, n := range []byte{waits, untold, canceled, completed} {
		triggers = append(triggers, trigger(parent, "a", n))
	}
	_, err := h.Store.TriggerRuns(t.Context(), triggers, persistence.GrantRequest{})
	require.NoError(t, err)
	claim := func(n uint32) []persistence.Grant {
		claimed, err := h.Store.ClaimTasks(t.Context(), request(n, 100))
		require.NoError(t, err)
		return claimed.Grants
	}
	report := func(grants ...persistence.Grant) {
		record := persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod}}
		for _, g := range grants {
			one := persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Succeeded, Output: []byte("1")}
			if g.Step == "child" {
				one.Report, one.Output = lifecycle.Yielded, nil
				one.Child = &persistence.Child{Run: workflow.RunID{15: childOf(g.Task.Run[15])}, Definition: child.Hash, Workflow: child.Name}
			}
			record.Transitions = append(record.Transitions, one)
		}
		_, err := h.Store.RecordTransitions(t.Context(), record)
		require.NoError(t, err)
	}
	drain := func() {
		_, err := h.Store.DrainIntake(t.Context(), 100)
		require.NoError(t, err)
	}
	report(claim(1)...)
	report(claim(2)...)
	drain()
	running := claim(3)
	require.Len(t, running, 5)
	endOf := func(parent byte) {
		report(running[slices.IndexFunc(running, func(g persistence.Grant) bool { return g.Task.Run[15] == childOf(parent) })])
	}
	endOf(completed)
	drain()
	endOf(untold)
	for _, n := range []byte{canceled, careless} {
		_, err := h.Store.CancelRun(t.Context(), persistence.Cancel{Run: workflow.RunID{15: n}})
		require.NoError(t, err)
	}
	tables, err := h.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, []workflow.RunID{{15: untold}, {15: childOf(canceled)}}, tables.Signaled)
	return tables
}
