package statemachine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// sum is a machine that adds what it hears, and what its activity makes of it.
type sum struct {
	Total int
	Seen  []string
}

var (
	add  = troupe.NewSignal[int]("add")
	stop = troupe.NewSignal[string]("stop")
)

// adder declares the machine. With other it decides otherwise: after is called behind each signal.
func adder(after func(a *statemachine.Activation[sum, int], value int)) *statemachine.Machine[int, sum, int] {
	return adderOf(1, nil, after)
}

func adderOf(
	version int, migrate func(int, func(any) error) (sum, error), after func(a *statemachine.Activation[sum, int], value int),
) *statemachine.Machine[int, sum, int] {
	type activation = statemachine.Activation[sum, int]
	return statemachine.Define("adder", func(m *statemachine.Builder[int, sum, int]) {
		m.Version(version, migrate)
		double := statemachine.Activity(m, "double", func(_ context.Context, in int) (int, error) { return 2 * in, nil })
		window := m.Timer("window")
		m.OnStart(func(a *activation, in int) {
			a.State.Total = in
			window.Start(a, time.Minute)
		})
		m.OnTimer(window, func(a *activation) { a.State.Seen = append(a.State.Seen, a.ID) })
		statemachine.OnCompleted(m, double, func(a *activation, out int) { a.State.Total += out })
		statemachine.OnSignal(m, add, func(a *activation, value int) {
			if value == 1 {
				double.Start(a, value)
			}
			if after != nil {
				after(a, value)
			}
		})
		statemachine.OnSignal(m, stop, func(a *activation, _ string) { a.Complete(a.State.Total) })
	})
}

// ran is a run of the adder which has handled a few entries, as it was exported, while it lives.
func ran(t *testing.T, config troupe.Config, use func(machine *statemachine.Machine[int, sum, int], run *troupe.Run[int])) (exported []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		machine := adder(nil)
		handle, err := troupe.Register(engine, machine)
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		run, err := handle.RunNoWait(t.Context(), 100)
		require.NoError(t, err)
		for i := range 3 {
			require.NoError(t, add.Send(t.Context(), run, i))
		}
		time.Sleep(2 * time.Minute)
		require.NoError(t, machine.Replay(t.Context(), run))
		if use != nil {
			use(machine, run)
		}
		require.NoError(t, stop.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 102, out)
		require.NoError(t, machine.Replay(t.Context(), run))
		var export bytes.Buffer
		for page := (troupe.MachineHistory{Next: -1}); page.Next != 0; {
			page, err = run.MachineHistory(t.Context(), max(page.Next, 0))
			require.NoError(t, err)
			require.NoError(t, json.NewEncoder(&export).Encode(page))
		}
		exported = export.Bytes()
	})
	return exported
}

func TestReplayFindsWhatDecidesOtherwise(t *testing.T) {
	t.Parallel()
	exported := ran(t, troupe.Config{}, nil)
	replay := func(m *statemachine.Machine[int, sum, int]) error {
		return m.ReplayHistory(bytes.NewReader(exported), nil)
	}
	require.NoError(t, replay(adder(nil)))

	var differs *statemachine.ReplayError
	err := replay(adder(func(a *statemachine.Activation[sum, int], value int) { a.State.Total += value }))
	require.ErrorAs(t, err, &differs)
	require.Equal(t, "it left another state: .Total is 105 and 102, which is stored", differs.Differs)
	require.Equal(t, `OnSignal of "stop"`, differs.Handler)
	require.ErrorContains(t, err, "replay of run "+differs.Run.String()+": entry 6, ")

	calls := 0
	require.ErrorAs(t, replay(adder(func(a *statemachine.Activation[sum, int], value int) {
		calls++
		a.State.Seen = append(a.State.Seen, fmt.Sprint(calls))
	})), &differs)
	require.EqualValues(t, 1, differs.Entry)
	require.Contains(t, differs.Differs, `the handler is not deterministic: called twice with the same, it gave another state: .Seen[0] is "1" and "2"`)

	err = replay(adder(func(*statemachine.Activation[sum, int], int) { panic("on purpose") }))
	require.ErrorAs(t, err, &differs)
	require.ErrorContains(t, err, "the handler had succeeded, and failed in the replay: panic: on purpose")

	require.ErrorAs(t, replay(adderOf(2, func(int, func(any) error) (state sum, err error) { return sum{Total: 1}, nil }, nil)), &differs)
	require.Contains(t, differs.Notice, "the stored state has version 1, and this program version 2")
	require.ErrorContains(t, replayAs(exported, "elsewhere"), `is one of workflow "adder"`)
	require.ErrorContains(t, adder(nil).ReplayHistory(strings.NewReader("x"), nil), "read the history: ")
	newer := bytes.ReplaceAll(exported, []byte(`"version":1`), []byte(`"version":3`))
	require.ErrorContains(t, adder(nil).ReplayHistory(bytes.NewReader(newer), nil),
		"cannot be replayed: the stored state: the state has version 3, and this program knows those up to 1")
}

func replayAs(exported []byte, name string) error {
	return statemachine.Define(name, func(m *statemachine.Builder[int, sum, int]) {
		m.OnStart(func(*statemachine.Activation[sum, int], int) {})
	}).ReplayHistory(bytes.NewReader(exported), nil)
}

func TestReplayNamesAnEntryOfWhatItDidNotStart(t *testing.T) {
	t.Parallel()
	exported := ran(t, troupe.Config{}, nil)
	type activation = statemachine.Activation[sum, int]
	for want, start := range map[string]func(a *activation, timer statemachine.TimerRef){
		"the machine had started double#2, and the replay window#2 in its place":       func(a *activation, timer statemachine.TimerRef) { timer.Start(a, time.Hour) },
		"the machine had started double#2, and the replay has started 1 things so far": func(*activation, statemachine.TimerRef) {},
	} {
		err := statemachine.Define("adder", func(m *statemachine.Builder[int, sum, int]) {
			double := statemachine.Activity(m, "double", func(_ context.Context, in int) (int, error) { return 2 * in, nil })
			window := m.Timer("window")
			m.OnStart(func(a *activation, _ int) { window.Start(a, time.Minute) })
			m.OnTimer(window, func(*activation) {})
			statemachine.OnCompleted(m, double, func(*activation, int) {})
			statemachine.OnSignal(m, add, func(a *activation, value int) {
				if value == 1 {
					start(a, window)
				}
			})
		}).ReplayHistory(bytes.NewReader(exported), nil)
		var differs *statemachine.ReplayError
		require.ErrorAs(t, err, &differs)
		require.Equal(t, want, differs.Differs)
		require.Equal(t, `OnCompleted of "double"`, differs.Handler)
	}
}

// sealed is a codec whose bytes differ each time, and are bound to the place of a payload.
type sealed struct {
	troupe.JSON

	nonce *atomic.Int64
}

func (s sealed) MarshalFor(place troupe.PayloadPlace, value any) ([]byte, error) {
	payload, err := s.Marshal(value)
	return append(fmt.Appendf(nil, "%d %v ", s.nonce.Add(1), place), payload...), err
}

func (sealed) UnmarshalFor(place troupe.PayloadPlace, data []byte, target any) error {
	_, rest, _ := strings.Cut(string(data), " ")
	bound := fmt.Sprintf("%v ", place)
	if !strings.HasPrefix(rest, bound) {
		return fmt.Errorf("the bytes %.60q are not of %v", data, place)
	}
	return json.Unmarshal([]byte(rest[len(bound):]), target)
}

func TestReplayOfBytesThatVary(t *testing.T) {
	t.Parallel()
	codec := sealed{nonce: &atomic.Int64{}}
	exported := ran(t, troupe.Config{Codec: codec}, nil)
	require.NoError(t, adder(nil).ReplayHistory(bytes.NewReader(exported), codec))
	var differs *statemachine.ReplayError
	require.ErrorAs(t, adder(func(a *statemachine.Activation[sum, int], value int) { a.State.Total += value }).
		ReplayHistory(bytes.NewReader(exported), codec), &differs)
	require.Equal(t, "it left another state: .Total is 105 and 102, which is stored", differs.Differs)
	require.ErrorContains(t, adder(nil).ReplayHistory(bytes.NewReader(exported), nil), "decode the run's input")
}

func TestReplayReadsPages(t *testing.T) {
	t.Parallel()
	exported := ran(t, troupe.Config{}, func(machine *statemachine.Machine[int, sum, int], run *troupe.Run[int]) {
		for range 2_500 {
			require.NoError(t, add.Send(context.Background(), run, 0))
		}
		time.Sleep(time.Minute)
		require.NoError(t, machine.Replay(context.Background(), run))
	})
	require.Equal(t, 3, bytes.Count(exported, []byte("\n")))
	require.NoError(t, adder(nil).ReplayHistory(bytes.NewReader(exported), nil))
	one, rest, _ := bytes.Cut(exported, []byte("\n"))
	moved := bytes.Replace(rest, []byte(`"base":0`), []byte(`"base":7`), 1)
	err := adder(nil).ReplayHistory(bytes.NewReader(append(append(one, '\n'), moved...)), nil)
	require.ErrorIs(t, err, statemachine.ErrHistoryMoved)
}

// What was handled long ago is replayed from a state of then, with the ids that came after it.
func TestReplayFromABase(t *testing.T) {
	t.Parallel()
	var base troupe.MachineStatus
	exported := ran(t, troupe.Config{}, func(_ *statemachine.Machine[int, sum, int], run *troupe.Run[int]) {
		var err error
		base, err = run.Machine(context.Background())
		require.NoError(t, err)
		require.NoError(t, add.Send(context.Background(), run, 0))
		time.Sleep(time.Minute)
	})
	var page troupe.MachineHistory
	require.NoError(t, json.Unmarshal(exported, &page))
	page.Base, page.BaseVersion, page.BaseState, page.BaseStarted, page.Input = base.Handled, base.Version, base.State, base.Started, nil
	page.Entries = page.Entries[base.Handled:]
	require.Len(t, page.Entries, 2)
	trimmed, err := json.Marshal(page)
	require.NoError(t, err)
	require.NoError(t, adder(nil).ReplayHistory(bytes.NewReader(trimmed), nil))
	var differs *statemachine.ReplayError
	require.ErrorAs(t, adderOf(2, func(_ int, decode func(any) error) (state sum, err error) {
		err = decode(&state)
		return state, err
	}, func(a *statemachine.Activation[sum, int], _ int) { a.State.Total++ }).ReplayHistory(bytes.NewReader(trimmed), nil), &differs)
	require.Equal(t, "it left another state: .Total is 103 and 102, which is stored", differs.Differs)
	require.Contains(t, differs.Notice, "has version 1, and was migrated to version 2 of this program")
}
