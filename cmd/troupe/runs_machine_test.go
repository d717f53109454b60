package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

func TestPrintAState(t *testing.T) {
	t.Parallel()
	r := &troupe.RunStatus{Workflow: "order", State: troupe.StateRunning, Steps: []troupe.StepStatus{
		{Name: "machine", State: troupe.StateWaiting}, {Name: "charge#1", State: troupe.StateCompleted}, {Name: "window#2", State: troupe.StateSleeping},
	}}
	m := &troupe.MachineStatus{Version: 2, State: []byte(`{"big":12345678901234567}`), Handled: 3, Arrived: 4, Started: 2}
	printed := func(f readFlags) string {
		var out strings.Builder
		require.NoError(t, f.printState(&out, m, r))
		return out.String()
	}
	text := printed(readFlags{})
	for _, line := range []string{`version +2`, `entries +3 handled, up to 1 wait`, `started +2`, `open +window#2`, `state +\{"big":12345678901234567\}`} {
		require.Regexp(t, line+`\n`, text)
	}
	require.JSONEq(t, `{"version":2,"state":{"big":12345678901234567},"handled":3,"arrived":4,"started":2,"open":["window#2"]}`, printed(readFlags{json: true}))
	require.Contains(t, printed(readFlags{json: true}), "12345678901234567", "with all digits")

	m.State, m.Arrived, r.Steps = []byte("\x89PNG"), 3, r.Steps[:1]
	text = printed(readFlags{})
	for _, line := range []string{`entries +3 handled`, `open +nothing`, `state +base64 iVBORw==`} {
		require.Regexp(t, line+`\n`, text)
	}
	require.Contains(t, printed(readFlags{json: true}), `"state":{"$base64":"iVBORw=="}`)
	*m = troupe.MachineStatus{}
	require.Regexp(t, `state +none yet: no activation is stored\n`, printed(readFlags{}))
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(printed(readFlags{json: true})), &object))
	require.NotContains(t, object, "state")

	var open []string
	for i := range 25 {
		open = append(open, fmt.Sprintf("charge#%d", i+1))
	}
	require.True(t, strings.HasSuffix(namesText(open), "charge#20 and 5 more (troupe runs show)"))
}

func TestWriteAHistory(t *testing.T) {
	t.Parallel()
	pages := map[int64]troupe.MachineHistory{
		0:    {Workflow: "order", Version: 1, State: []byte("{}"), Handled: 1001, Next: 1000, Entries: []troupe.MachineEntry{{N: 1000, Kind: "fired"}}},
		1000: {Workflow: "order", Version: 1, Handled: 1001, Entries: []troupe.MachineEntry{{N: 1001, Kind: "signal", Payload: []byte("7")}}},
	}
	var out strings.Builder
	require.NoError(t, writeHistory(&out, func(after int64) (troupe.MachineHistory, error) { return pages[after], nil }))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	var page troupe.MachineHistory
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &page))
	require.Equal(t, pages[1000], page)
	broken := errors.New("broken")
	require.ErrorIs(t, writeHistory(&out, func(int64) (page troupe.MachineHistory, err error) { return page, broken }), broken)
}

func TestEventsOfMachinesAreTold(t *testing.T) {
	t.Parallel()
	require.Equal(t, "on pod-a, 3 entries", eventText(&troupe.Event{Kind: "activated", By: "3 entries", Pod: 7, PodName: "pod-a"}))
	require.Equal(t, "events of this kind up to number 90 were removed", eventText(&troupe.Event{Kind: "trimmed", N: 90}))
	require.Equal(t, `signal paid, decode the signal "paid" into int: not a number`,
		eventText(&troupe.Event{Kind: "signal_refused", By: "paid", Text: `decode the signal "paid" into int: not a number`}))
}
