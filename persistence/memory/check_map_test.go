package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// The runs of mapTables: one whose map waits, one whose map breaks, one whose map has completed, and
// one that continues a run of which some elements have completed, and has not begun.
const (
	spread    byte = 1
	breaking  byte = 2
	gathered  byte = 3
	continued byte = 4
)

// TestCheckFindsWhatIsWrongInMaps is TestCheckFindsWhatIsWrong for maps (I21). The map is step 1,
// its elements are steps 5 to 8.
func TestCheckFindsWhatIsWrongInMaps(t *testing.T) {
	t.Parallel()
	in := func(run byte, spoil func(r *snapshot.Run)) func(s *snapshot.Tables) {
		return func(s *snapshot.Tables) { spoil(runIn(s, run)) }
	}
	step := func(run byte, step int32, spoil func(t *snapshot.Task)) func(s *snapshot.Tables) {
		return in(run, func(r *snapshot.Run) { spoil(r.Task(step)) })
	}
	counts := func(run byte, spoil func(m *lifecycle.Map)) func(s *snapshot.Tables) {
		return in(run, func(r *snapshot.Run) { spoil(&r.Maps[0]) })
	}
	for name, c := range map[string]struct {
		spoil func(s *snapshot.Tables)
		want  string
	}{
		"two of one item":        {step(spread, 6, func(t *snapshot.Task) { t.Dynamic.Name = "files[0]" }), `I21: run .* has two elements "files\[0\]"`},
		"no name of an item":     {step(spread, 6, func(t *snapshot.Task) { t.Dynamic.Name = "files" }), `I21: run .* has two elements "files", or that is no name`},
		"of an item to come":     {step(spread, 6, func(t *snapshot.Task) { t.Dynamic.Name = "files[4]" }), `I21: run .* has element "files\[4\]"; 4 of 5 items have one`},
		"of no item":             {counts(spread, func(m *lifecycle.Map) { m.From, m.Items = 9, 3 }), `I21: run .* has element "files\[3\]"; 9 of 3`},
		"window exceeded":        {counts(spread, func(m *lifecycle.Map) { m.Window = 1 }), "I21: run .* step 1 has 2 open elements: at most 1"},
		"window not used":        {counts(spread, func(m *lifecycle.Map) { m.Window = 3 }), "I21: run .* step 1 has 2 open elements, 3 may be, and 1 are to come"},
		"gathers too early":      {step(spread, 1, func(t *snapshot.Task) { t.State = lifecycle.Queued }), "I21: run .* step 1 is queued and has 2 open elements"},
		"items left out":         {counts(gathered, func(m *lifecycle.Map) { m.Left = 1 }), "I21: run .* step 1 has completed, 1 items have no element"},
		"completed all the same": {counts(gathered, func(m *lifecycle.Map) { m.Failed = 1 }), "I21: run .* step 1 has completed, .* 1 elements failed, where 0 may"},
		"open not counted":       {counts(spread, func(m *lifecycle.Map) { m.Open = 1 }), "I21: run .* step 1 counts 1 open, 1 failed, 1 to come of 5; it has 2, 1, 4 made, 0 taken over"},
		"failed not counted":     {counts(spread, func(m *lifecycle.Map) { m.Failed = 0 }), "I21: run .* step 1 counts 2 open, 0 failed"},
		"left not counted":       {counts(spread, func(m *lifecycle.Map) { m.Left = 0 }), "I21: run .* step 1 counts 2 open, 1 failed, 0 to come"},
		"a canceled map counts": {in(spread, func(r *snapshot.Run) {
			r.Task(1).State, r.Maps[0].Open = lifecycle.Canceled, 0
		}), "I21: run .* step 1 counts 0 open"},
		"waits for nothing": {in(breaking, func(r *snapshot.Run) {
			r.Task(5).State, r.Maps[0].Open = lifecycle.Completed, 0
		}), "I21: run .*02 step 1 waits, and no element is open"},
		"breaks unnoticed":      {step(breaking, 1, func(t *snapshot.Task) { t.Class = "" }), "I21: run .*02 step 1: 2 elements failed, 0 may, and its error is \"element 1 of 5 failed: it broke\""},
		"begins for nothing":    {step(breaking, 5, func(t *snapshot.Task) { t.State = lifecycle.Queued }), "I21: run .*02 step 1 fails with its elements, and 1 of them"},
		"breaks without reason": {step(spread, 1, func(t *snapshot.Task) { t.Class = lifecycle.ClassElementFailed }), "I21: run .* step 1: 1 elements failed, 1 may"},
		"counts of no map":      {counts(spread, func(m *lifecycle.Map) { m.Step = 0 }), "I21: run .* step 0 counts elements and is not a map"},
		"counts of an element":  {counts(spread, func(m *lifecycle.Map) { m.Step = 5 }), "I21: run .* step 5 counts elements and is not a map"},
		"counts of no step":     {counts(spread, func(m *lifecycle.Map) { m.Step = 99 }), "I21: run .* step 99 counts elements and is not a map"},
		"does not count":        {in(spread, func(r *snapshot.Run) { r.Maps = nil }), "I21: run .* step 1 has begun its elements: true, and counts them: false"},
		"elements of no map":    {step(spread, 5, func(t *snapshot.Task) { t.Dynamic.Owner = 0 }), "I21: run .* step 5 is an element of step 0, which has begun none"},
		"tasks before it began": {step(continued, 5, func(t *snapshot.Task) { t.State = lifecycle.Failed }), "I2: run .* is not expanded and has tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFound(t, mapTables(t), c.spoil, c.want)
		})
	}
}

// mapTables is one run of each kind.
func mapTables(t *testing.T) snapshot.Tables {
	t.Helper()
	h := newClock().harness()
	graph := storetest.MappedOn()
	pod, request := join(t, h.Store, graph)
	ctx, claims := t.Context(), uint32(0)
	trig := func(n byte) {
		_, err := h.Store.TriggerRuns(ctx, []persistence.Trigger{trigger(graph, "a", n)}, persistence.GrantRequest{})
		require.NoError(t, err)
	}
	claim := func(most int) []persistence.Grant {
		for {
			claims++
			claimed, err := h.Store.ClaimTasks(ctx, request(claims, most))
			require.NoError(t, err)
			if len(claimed.Grants) > 0 {
				return claimed.Grants
			}
			require.NotZero(t, claimed.Discarded, "nothing is left to claim")
		}
	}
	record := func(one persistence.Transition, g persistence.Grant) {
		one.Task, one.Epoch = g.Task, g.Epoch
		_, err := h.Store.RecordTransitions(ctx, persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod}, Transitions: []persistence.Transition{one}})
		require.NoError(t, err)
	}
	succeeded := persistence.Transition{Report: lifecycle.Succeeded, Output: []byte("1")}
	failed := persistence.Transition{Report: lifecycle.Errored, Class: "test", Error: "it broke"}
	begin := func(n byte, window, allowed int32) []persistence.Grant {
		trig(n)
		record(succeeded, claim(1)[0])
		for _, g := range claim(2) {
			one := succeeded
			if g.Step == "files" {
				one = persistence.Transition{Report: lifecycle.Yielded, Map: &persistence.Map{Window: window, Allowed: allowed}}
				for i := range 5 {
					one.Map.Items = append(one.Map.Items, fmt.Append(nil, i))
				}
			}
			record(one, g)
		}
		return claim(int(window))
	}
	for _, g := range begin(gathered, 5, 0) {
		record(succeeded, g)
	}
	record(succeeded, claim(1)[0])
	record(failed, claim(1)[0]) // what comes after it
	for i, g := range begin(9, 3, 0) {
		record([]persistence.Transition{succeeded, failed, succeeded}[i], g)
	}
	letters, err := h.Store.ListDeadLetters(ctx, persistence.DeadFilter{Limit: 10})
	require.NoError(t, err)
	at := slices.IndexFunc(letters, func(l persistence.DeadLetter) bool { return l.Task.Run[15] == 9 })
	answer, err := h.Store.RequeueDeadLetter(ctx, persistence.RequeueOrder{Letter: letters[at].Task, Run: workflow.RunID{15: continued}, At: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	require.Equal(t, persistence.RequeueStored, answer.Result)
	running := begin(breaking, 3, 0)
	record(failed, running[1])
	record(failed, running[2])
	running = begin(spread, 2, 1)
	record(failed, running[1])
	record(succeeded, running[0])
	claim(1)
	tables, err := h.Snapshot(ctx)
	require.NoError(t, err)
	return tables
}
