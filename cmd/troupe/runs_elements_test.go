package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A run shows how many elements of its maps have completed.
func TestPrintAMap(t *testing.T) {
	t.Parallel()
	r := troupe.RunStatus{Workflow: "ingest", State: troupe.StateRunning, Steps: []troupe.StepStatus{
		{Name: "list", State: troupe.StateCompleted, Attempt: 1, OutputSize: 2},
		{
			Name: "files", State: troupe.StateWaiting, OutputSize: -1, Map: troupe.MapStatus{Items: 1000, Completed: 20, Failed: 3, Open: 20, Left: 957},
			Waiting: "waits for its elements: 20 of 1,000 are open; 957 have not begun; 3 have failed",
		},
	}}
	var out strings.Builder
	require.NoError(t, printRun(&out, &r))
	require.Regexp(t, `STEP +STATE +ATTEMPT +POD +STARTED +TOOK +OUTPUT +ELEMENTS +WHY\n`, out.String())
	require.Regexp(t, `list +completed +1 +- +- +- +2 B +- +-\n`, out.String())
	require.Regexp(t, `files +waiting +- +- +- +- +- +20 of 1000, 3 failed or canceled +waits for its elements: 20 of 1,000 are open; 957 have not begun; 3 have failed\n`, out.String())
	r.Steps = r.Steps[:1]
	out.Reset()
	require.NoError(t, printRun(&out, &r))
	require.NotContains(t, out.String(), "ELEMENTS")
	require.Equal(t, "1 of 2", elementsText(&troupe.MapStatus{Items: 2, Completed: 1}))
}

func TestPrintElements(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	page := &troupe.ElementPage{
		Map: troupe.MapStatus{Items: 1000, Completed: 20, Failed: 3, Open: 20, Left: 957}, Next: 41,
		Elements: []troupe.ElementStatus{
			{Item: 7, State: troupe.StateCompleted, Attempt: 1, Pod: "a", OutputSize: 12, StartedAt: at, FinishedAt: at.Add(2 * time.Second)},
			{Item: 8, State: troupe.StateBackoff, Attempt: 2, Losses: 1, OutputSize: -1, Class: "torn", Error: "unexpected EOF"},
		},
	}
	var out strings.Builder
	require.NoError(t, printElements(&out, page))
	require.Contains(t, out.String(), "1000 items: 20 completed, 3 failed or canceled, 20 open, 957 not begun\n")
	require.Regexp(t, `7 +completed +1 +a +2030-01-31T08:00:00Z +2 s +12 B +-\n`, out.String())
	require.Regexp(t, `8 +backoff +2, lost 1 +- +- +- +- +torn: unexpected EOF\n`, out.String())
	require.Contains(t, out.String(), "more: --after 41\n")
	page.Next = 0
	out.Reset()
	require.NoError(t, printElements(&out, page))
	require.NotContains(t, out.String(), "more")
	page.Map = troupe.MapStatus{}
	out.Reset()
	require.NoError(t, printElements(&out, page))
	require.Contains(t, out.String(), "the map has not begun in this run; these elements completed in the run that it continues\n")
	page.Elements = nil
	out.Reset()
	require.NoError(t, printElements(&out, page))
	require.Contains(t, out.String(), "the map has begun no elements\n")
}

func TestTheEventOfAMapThatWaits(t *testing.T) {
	t.Parallel()
	require.Equal(t, "for 20 elements", eventText(&troupe.Event{Kind: "waiting", By: "20 elements"}))
	step := stepsOf([]troupe.WorkflowStep{{Name: "files", Map: true}})[0]
	require.True(t, step.Map)
	require.Equal(t, "map", kindText(step))
}

func TestCallsForElementsThatAreWrong(t *testing.T) {
	t.Parallel()
	const id = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	for want, args := range map[string][]string{
		"troupe runs elements takes the id of a run and the name of a map of it, got 1 argument": {id},
		`"files" is not the id of a run`: {"files", id},
		`--state is "done": use one of queued, running, backoff, completed, failed, canceled`: {id, "files", "--state", "done"},
		"--limit is 0: use 1 to":  {id, "files", "--limit", "0"},
		"--after is -1: take the": {id, "files", "--after", "-1"},
	} {
		code, out, problem := call([]string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none"}, append([]string{"runs", "elements"}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
	}
}
