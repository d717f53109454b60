package troupe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// sample is what docs/json.md shows: a run whose second step has failed.
type sample struct {
	status RunStatus
	events []Event
	page   RunPage
	detail DeadLetterDetail

	elements ElementPage
	history  MachineHistory
}

func newSample() sample {
	cet := time.FixedZone("CET", 3600) // as a server of another time zone gives them
	at := time.Date(2026, 3, 1, 13, 0, 0, 250_000_000, cet)
	run := workflow.NewRunID(at, [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	row := persistence.RunRow{
		ID: run, Workflow: "order", Tenant: "acme", State: StateFailed, Origin: "api", Labels: map[string]string{"region": "eu"},
		CreatedAt: at, StartedAt: at, FinishedAt: at.Add(2 * time.Second), FailedStep: "charge", Class: "declined", Error: "card declined",
	}
	events := []lifecycle.Event{
		{Step: lifecycle.RunStep, N: 1, Kind: lifecycle.EventRunCreated, At: at, By: "api"},
		{Step: 1, N: 2, Kind: lifecycle.EventStarted, At: at, Pod: 7, PodName: "pod-a", Attempt: 1},
		{Step: 1, N: 3, Kind: lifecycle.EventRetrying, At: at, Attempt: 1, Delay: time.Second, WakeAt: at.Add(time.Second), Class: "declined", Text: "card declined"},
	}
	s := sample{
		status: runStatus(row, []persistence.TaskRow{
			{Name: "reserve", State: StateCompleted, Attempt: 1, PodName: "pod-a", Output: []byte(`{"items":2}`), OutputSize: 11, StartedAt: at, FinishedAt: at},
			{Step: 1, Name: "charge", State: StateFailed, Attempt: 2, Lost: 1, OutputSize: -1, PodName: "pod-a", Class: "declined", Error: "card declined", StartedAt: at, FinishedAt: at.Add(2 * time.Second)},
			{Step: 2, Name: "label", State: StateCompleted, Attempt: 1, PodName: "pod-b", Output: []byte("\x89PNG"), OutputSize: 4, StartedAt: at, FinishedAt: at},
			{Step: 3, Name: "ship", State: StateCanceled, OutputSize: -1},
		}),
		page: RunPage{Runs: []RunStatus{runStatus(row, nil)}, Next: run},
	}
	names := map[int32]string{1: "charge"}
	for _, e := range events {
		s.events = append(s.events, publicEvent(e, names[e.Step]))
	}
	s.detail = DeadLetterDetail{
		DeadLetter: deadLetter(&persistence.DeadLetter{
			Task: workflow.TaskID{Run: run, Step: 1}, Workflow: "order", Step: "charge", Queue: "default", Tenant: "acme", Reason: DeadNonRetryable,
			Class: "declined", Error: "card declined", Attempts: 2, Lost: 1, CreatedAt: at, StartedAt: at, DiedAt: at.Add(2 * time.Second),
		}),
		RunKept: true, Input: []byte(`{"customer":"c-17"}`), Events: s.events[1:2],
		Parents: []DeadParent{{Step: "reserve", State: StateCompleted, Output: []byte(`{"items":2}`), Size: 11}},
	}
	s.elements = elementPage(&persistence.ElementPage{
		Map: persistence.MapRow{Items: 1000, Left: 960, Open: 20, Failed: 1}, Next: 9, Rows: []persistence.TaskRow{
			{Step: 8, Name: "files[3]", State: StateCompleted, Attempt: 1, OutputSize: 11, PodName: "pod-a", StartedAt: at, FinishedAt: at},
			{Step: 9, Name: "files[4]", State: StateFailed, Attempt: 2, OutputSize: -1, PodName: "pod-b", Class: "torn", Error: "unexpected EOF", StartedAt: at, FinishedAt: at},
		},
	})
	s.history = MachineHistory{
		Run: run, Tenant: "acme", Workflow: "order", BegunAt: at.UTC(), Input: []byte(`{"customer":"c-17"}`),
		Version: 1, State: []byte(`{"charged":["r-1"]}`), Handled: 3, Started: 2, Entries: []MachineEntry{
			{N: 1, Kind: "completed", At: at.UTC(), Name: "charge#1", Payload: []byte(`"r-1"`)},
			{N: 2, Kind: "signal", At: at.UTC(), Name: "noted", Payload: []byte("\x89PNG")},
			{N: 3, Kind: "failed", At: at.UTC(), Name: "charge#2", Class: "declined", Error: "card declined"},
		},
	}
	return s
}

// The page shows what json.Marshal makes of a status, events, pages and a dead letter.
func TestJSONPage(t *testing.T) {
	s := newSample()
	text := read(t, "docs/json.md")
	for name, value := range map[string]any{
		"status": s.status, "events": s.events, "runs": s.page, "elements": s.elements, "dead-letter": s.detail, "history": s.history,
	} {
		form, err := json.MarshalIndent(value, "", "  ")
		require.NoError(t, err)
		text = replaceBlock(t, text, name, "json", string(form))
	}
	checkPage(t, "docs/json.md", text)
}

// What was written is read back, byte for byte where it is a payload.
func TestJSONIsReadBack(t *testing.T) {
	t.Parallel()
	s := newSample()
	requireReadBack(t, s.status)
	requireReadBack(t, s.events)
	requireReadBack(t, s.page)
	requireReadBack(t, s.detail)
	requireReadBack(t, s.elements)
	requireReadBack(t, s.history)
	requireReadBack(t, MachineHistory{Base: 7, BaseVersion: 1, BaseState: []byte("\x00"), BaseStarted: 3, Version: 2, State: []byte("{}"), Entries: []MachineEntry{}, Next: 9})
	requireReadBack(t, MachineStatus{Version: 1, State: []byte(`[1]`), Handled: 3, Arrived: 4, Started: 5})
	requireReadBack(t, StepStatus{Name: "files", Map: s.elements.Map})
	requireReadBack(t, DeadLetterPage{Letters: []DeadLetter{s.detail.DeadLetter}, Next: s.detail.ID})
	for _, output := range []string{
		``, `null`, `7`, `"\u0000"`, `{"$base64":"not base64"}`, `{"$base64":"AA=="}`, `{"$base64":null}`, `{"$base64":"AA==","b":1}`, `{"$BASE64":"AA=="}`,
		"\x00\xff", "\"\xff\"", `{"a":1`, `12345678901234567890.5`, `{"a":1,"a":2}`,
	} {
		step := requireReadBack(t, StepStatus{Name: "s", Output: []byte(output)})
		require.NotNil(t, step.Output, output)
	}
	require.Nil(t, requireReadBack(t, StepStatus{Name: "s"}).Output)
	var step StepStatus
	require.ErrorContains(t, json.Unmarshal([]byte(`{"output":{"$base64":"%"}}`), &step), "$base64")
}

func requireReadBack[T any](t *testing.T, value T) T {
	t.Helper()
	form, err := json.Marshal(value)
	require.NoError(t, err)
	require.True(t, json.Valid(form))
	var back T
	require.NoError(t, json.Unmarshal(form, &back), "%s", form)
	require.Equal(t, value, back, "%s", form)
	return back
}

// Keys that the page promises are there also where there is nothing to say.
func TestJSONKeepsItsKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		want []string
	}{
		{RunStatus{}, []string{"id", "workflow", "tenant", "key", "state", "canceling", "cancel_reason", "origin", "created_at", "failed_step", "class", "error"}},
		{StepStatus{}, []string{"name", "state", "attempt", "losses", "output_size", "class", "error", "pod", "waiting"}},
		{MapStatus{}, []string{"items", "completed", "failed", "open", "left"}},
		{ElementStatus{}, []string{"item", "name", "state", "attempt", "losses", "output_size", "class", "error", "pod"}},
		{ElementPage{}, []string{"map", "elements"}},
		{MachineStatus{}, []string{"version", "handled", "arrived", "started"}},
		{MachineHistory{}, []string{"run", "tenant", "workflow", "base", "base_version", "base_started", "version", "handled", "started", "entries"}},
		{MachineEntry{}, []string{"n", "kind", "at", "name"}},
		{Event{}, []string{"step", "n", "kind", "at"}},
		{DeadLetter{}, []string{"id", "run", "workflow", "step", "handler", "queue", "tenant", "reason", "class", "error", "attempts", "losses", "handled", "created_at", "died_at", "requeues"}},
		{DeadParent{}, []string{"step", "state", "size"}},
	} {
		form, err := json.Marshal(c.of)
		require.NoError(t, err)
		keys := map[string]any{}
		require.NoError(t, json.Unmarshal(form, &keys))
		var got []string
		for key := range keys {
			got = append(got, key)
		}
		require.ElementsMatch(t, c.want, got, "%T", c.of)
	}
}
