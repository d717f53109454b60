package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

func spawned(step int32, state State, entry int64) Task {
	return Task{
		Step: step, State: state, Traits: workflow.TraitSpawned, Entry: entry, Epoch: 7, Attempt: 3, Lost: 1, Class: "test", Error: "broke",
		Dynamic: &Dynamic{Declared: 1, Name: SpawnedName("charge", step-workflow.MachineSteps)},
	}
}

// The machine has handled the entries up to 5 of 9.
func TestWhatAMachineResumesWith(t *testing.T) {
	t.Parallel()
	const none, ended, again = 0, 1, 2
	for name, c := range map[string]struct {
		task Task
		want int
	}{
		"completed and handled":                 {spawned(1001, Completed, 5), none},
		"completed and not handled":             {spawned(1001, Completed, 6), ended},
		"completed behind the end":              {spawned(1001, Completed, 0), ended},
		"a timer that was canceled as it fired": {spawned(1001, Completed, -6), none},
		"failed and handled":                    {spawned(1001, Failed, 4), none},
		"failed and not handled":                {spawned(1001, Failed, 7), again},
		"a child run without an output":         {spawned(1001, Skipped, 7), again},
		"canceled by the machine":               {spawned(1001, Canceled, -3), none},
		"canceled by its end":                   {spawned(1001, Canceled, 0), again},
		"open when the rows were changed":       {spawned(1001, Running, 0), again},
		"the machine itself":                    {Task{State: Failed, Traits: workflow.TraitMachine}, none},
		"a machine that has heard of a cancel":  {Task{State: Canceled, Traits: workflow.TraitMachine, Entry: 6, WakeAt: time.Unix(1, 0)}, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ResumeMachine(Run{Signals: 9}, []Task{c.task}, 5)
			require.Equal(t, []bool{c.want == ended, c.want == again}, []bool{len(got.Ended) == 1, len(got.Again) == 1})
			for _, next := range append(got.Ended, got.Again...) {
				require.Equal(t, []any{c.task.Step, c.task.Dynamic, c.task.Traits}, []any{next.Step, next.Dynamic, next.Traits})
				require.Equal(t, []any{int32(0), int32(0), "", ""}, []any{next.Attempt, next.Lost, next.Class, next.Error})
			}
		})
	}
}

func TestEndsWithoutANumberAreTheLastOnes(t *testing.T) {
	t.Parallel()
	got := ResumeMachine(Run{Signals: 9}, []Task{spawned(1001, Completed, 0), spawned(1002, Completed, 8), spawned(1003, Completed, 0)}, 5)
	var entries []int64
	for _, e := range got.Ended {
		entries = append(entries, e.Entry)
		require.Equal(t, []any{Completed, FlagKept, int64(1)}, []any{e.State, e.Flags, e.Epoch})
	}
	require.Equal(t, []int64{10, 8, 11}, entries)
	require.EqualValues(t, 11, got.Signals)
}

func TestATimerThatBeginsAgainHasItsInstant(t *testing.T) {
	t.Parallel()
	timer := spawned(1001, Canceled, 0)
	timer.Traits |= workflow.TraitSleepUntil
	timer.WakeAt = time.Unix(1_900_000_000, 0)
	got := ResumeMachine(Run{}, []Task{timer}, 0)
	require.Equal(t, timer.WakeAt, got.Again[0].WakeAt)
	run := NewRun(&workflow.Graph{Nodes: []workflow.Node{{Traits: workflow.TraitMachine}}})
	run.Remaining++
	d := Decide(run, Rows{Tasks: []Task{{State: Pending, Traits: workflow.TraitMachine}, got.Again[0]}, Complete: true}, []Fact{RunStarted{}}, time.Unix(1_800_000_000, 0))
	require.Equal(t, []Timer{{Step: 1001, Kind: SleepTimer, At: timer.WakeAt, Epoch: 1}}, d.Timers)
	require.True(t, d.Run.Slow)
}

func TestWhichFailuresAMachineHasLeftBehind(t *testing.T) {
	t.Parallel()
	machine := func(state State) Task { return Task{State: state, Traits: workflow.TraitMachine} }
	for name, c := range map[string]struct {
		tasks []Task
		dead  int32
		want  bool
	}{
		"handled":                 {[]Task{machine(Failed), spawned(1001, Failed, 5)}, 1001, true},
		"not handled":             {[]Task{machine(Failed), spawned(1001, Failed, 6)}, 1001, false},
		"behind the end":          {[]Task{machine(Canceled), spawned(1001, Failed, 0)}, 1001, false},
		"handled long ago":        {[]Task{machine(Failed)}, 1001, true},
		"the machine itself":      {[]Task{machine(Failed), spawned(1001, Failed, 5)}, 0, false},
		"the machine has ended":   {[]Task{machine(Completed), spawned(1001, Failed, 6)}, 1001, true},
		"another one was handled": {[]Task{machine(Failed), spawned(1001, Failed, 5), spawned(1002, Failed, 6)}, 1002, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, LeftBehind(c.tasks, c.dead, 5))
		})
	}
}
