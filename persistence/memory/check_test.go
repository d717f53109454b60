package memory_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// TestCheckFindsWhatIsWrong breaks a good state in one place after the other
// and looks for the promise that is named.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *snapshot.Tables)
		want  string
	}{
		"event missing":       {func(s *snapshot.Tables) { s.Runs[0].Events = s.Runs[0].Events[1:] }, "I10: run .* event 2"},
		"state without event": {func(s *snapshot.Tables) { s.Runs[0].Tasks[3].State = lifecycle.Skipped }, "I10: run .* its events say"},
		"run state":           {func(s *snapshot.Tables) { s.Runs[0].Core.State = lifecycle.Completed }, "I6: run .* tasks are open"},
		"obligations":         {func(s *snapshot.Tables) { s.Runs[0].Core.Remaining = 0 }, "I6: run .* open obligations"},
		"output of a running task": {
			func(s *snapshot.Tables) { s.Runs[0].Tasks[1].Output = []byte("x") }, "I3: run .* has an output",
		},
		"decrement lost":    {func(s *snapshot.Tables) { s.Runs[0].Tasks[3].Pending = 1 }, "I5: run .* waits for 1 parents"},
		"parent not ended":  {func(s *snapshot.Tables) { s.Runs[0].Tasks[3].State = lifecycle.Queued }, "I5: .* before its parents ended"},
		"queue row missing": {func(s *snapshot.Tables) { s.Queue = nil }, "I1: run .* has 0 places"},
		"queue row twice":   {func(s *snapshot.Tables) { s.Queue = append(s.Queue, s.Queue[0]) }, "share place"},
		"queue row of a running task": {
			func(s *snapshot.Tables) { s.Queue[0].Task.Step = 1 }, "queue default: .* is running",
		},
		"suspect":       {func(s *snapshot.Tables) { s.Queue[0].Suspect = true }, "0 losses and flags 1000, suspect: true"},
		"claim missing": {func(s *snapshot.Tables) { s.Claims = nil }, "I1: run .* under 0 claims"},
		"claim twice":   {func(s *snapshot.Tables) { s.Claims = append(s.Claims, s.Claims...) }, "under 2 claims"},
		"pod gone":      {func(s *snapshot.Tables) { s.Pods = nil }, "which has left"},
		"timer missing": {func(s *snapshot.Tables) { s.Timers = nil }, "I1: run .* has no timer"},
		"timer of an old epoch": {
			func(s *snapshot.Tables) { s.Timers[0].Epoch-- }, "I7: run .* nothing waits for timer",
		},
		"key of nothing":    {func(s *snapshot.Tables) { s.Keys[0].Run = workflow.RunID{} }, "I2: key"},
		"intake of nothing": {func(s *snapshot.Tables) { s.Intake = []workflow.RunID{{1}} }, "I2: the intake"},
		"completed twice": {func(s *snapshot.Tables) {
			r := &s.Runs[0]
			again := r.Events[len(r.Events)-1]
			for _, e := range r.Events {
				if e.Kind == lifecycle.EventCompleted {
					again = e
				}
			}
			again.N++
			r.Events = append(r.Events, again)
			r.Tasks[again.Step].Epoch++
		}, "I3: run .* completed 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFound(t, goodTables(t), c.spoil, c.want)
		})
	}
}

// requireFound requires that the check has nothing against a state until it is spoiled.
func requireFound(t *testing.T, tables snapshot.Tables, spoil func(*snapshot.Tables), want string) {
	t.Helper()
	require.Empty(t, snapshot.Check(tables))
	spoil(&tables)
	tables.Sort()
	found := snapshot.Check(tables)
	for _, text := range found {
		if regexp.MustCompile(want).MatchString(text) {
			return
		}
	}
	require.Failf(t, "not found", "want %q; got %q", want, found)
}

// goodTables is a diamond of which one branch runs and the other is queued,
// and a nap that sleeps.
func goodTables(t *testing.T) snapshot.Tables {
	t.Helper()
	h := newClock().harness()
	diamond, nap := storetest.Diamond(), storetest.Nap(time.Hour)
	pod, request := join(t, h.Store, diamond, nap)
	first := trigger(diamond, "a", 1)
	first.Key = "key"
	_, err := h.Store.TriggerRuns(t.Context(), []persistence.Trigger{first, trigger(nap, "a", 2)}, persistence.GrantRequest{})
	require.NoError(t, err)
	for claim, limit := range []int{2, 1} {
		claimed, err := h.Store.ClaimTasks(t.Context(), request(uint32(claim), limit))
		require.NoError(t, err)
		require.Len(t, claimed.Grants, limit)
		if claim == 1 {
			break
		}
		record := persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod}}
		for _, g := range claimed.Grants {
			record.Transitions = append(record.Transitions, persistence.Transition{
				Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Succeeded, Output: []byte("1"),
			})
		}
		_, err = h.Store.RecordTransitions(t.Context(), record)
		require.NoError(t, err)
	}
	tables, err := h.Snapshot(t.Context())
	require.NoError(t, err)
	return tables
}
