package lifecycle

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// ordering is a plan of a machine that hears of a cancel.
func ordering() plan {
	return plan{policy: workflow.FinishSiblings, steps: []planStep{
		{name: "machine", traits: workflow.TraitMachine, sleep: time.Minute},
		{name: "charge", traits: workflow.TraitSpawned},
		{name: "window", traits: workflow.TraitSpawned | workflow.TraitSleepUntil},
		{name: "paid", traits: workflow.TraitSpawned | workflow.TraitWaits, signal: "paid"},
	}}
}

// activating is the report of an activation of all that is there.
func (w *world) activatingWith(a Activation, start ...string) TaskReported {
	w.tb.Helper()
	a.Taken = w.run.Signals
	for _, name := range start {
		a.Start = append(a.Start, w.spawn(name))
	}
	return w.report(0, TaskReported{Kind: Yielded, Activation: &a})
}

func TestNamesOfWhatAMachineStarts(t *testing.T) {
	t.Parallel()
	require.Equal(t, "charge#17", SpawnedName("charge", 17))
	for name, n := range map[string]int32{
		"charge#17": 17, "charge#1": 1, "charge": 0, "charge#": 0, "charge#0": 0, "charge#01": 0, "charge#+1": 0, "charge#-1": 0,
		"charge#1#2": 0, "charge#x": 0, "charge#2147483648": 0, "#1": 1, "": 0,
	} {
		step, as := SpawnedAs(name)
		require.Equal(t, n, as, name)
		if n == 0 {
			require.Equal(t, name, step)
		} else {
			require.Equal(t, name, SpawnedName(step, as))
		}
	}
}

// The end of what a machine has started needs the row of the machine; an activation needs what it
// cancels, and the end of the machine needs all that is open.
func TestMachinesAskForRows(t *testing.T) {
	t.Parallel()
	w := running(t, ordering())
	w.apply(w.activatingWith(Activation{}, "charge", "charge"))
	w.claim(1001, 1)
	ok := w.report(1001, TaskReported{Kind: Succeeded})
	require.Equal(t, []int32{0}, w.decide(false, ok, 1001).Missing)
	d := w.decide(false, ok, 0, 1001)
	require.Empty(t, d.Missing)
	require.Equal(t, []Enqueue{{Step: 0, Lane: LaneContinuing}}, d.Enqueued)

	signal := SignalArrived{Name: "paid", Steps: []int32{0}}
	require.Equal(t, []int32{0}, w.decide(false, signal).Missing)
	require.Equal(t, []Entry{{N: 1, Name: "paid"}}, w.decide(false, signal, 0).Arrived)

	w.signal("paid")
	w.claim(0, 1)
	cancels := w.activatingWith(Activation{Cancel: []int32{1001, 1002, 1003}})
	require.Equal(t, []int32{1001, 1002, 1003}, w.decide(false, cancels, 0).Missing)
	require.Equal(t, []int32{1003}, w.decide(false, cancels, 0, 1001, 1002).Missing)
	d = w.decide(true, cancels, 0, 1001, 1002)
	require.Empty(t, d.Missing, "there is none of this number")
	require.Equal(t, []Timer{{Step: 1001, Kind: StopTimer, At: w.now.Add(stopGrace), Epoch: 2}}, d.Timers)

	ends := w.report(0, TaskReported{Kind: Succeeded})
	require.True(t, w.decide(false, ends, 0).MissingAll)
	require.True(t, w.decide(false, CancelRequested{}, 0).MissingAll)
	w.apply(CancelRequested{})
	require.True(t, w.decide(false, TimerFired{Step: RunStep, Timer: CancelGraceTimer}, 0).MissingAll)
}

// What an activation leaves open is what counts: it may cancel and start something when it has all
// open that it may.
func TestAMachineMayHaveSoMuchOpen(t *testing.T) {
	t.Parallel()
	const first = workflow.MachineSteps + 1
	spawned := func(n int32, state State) Task {
		return Task{Step: workflow.MachineSteps + n, State: state, Traits: workflow.TraitSpawned, Epoch: 2, Pod: 1, Dynamic: &Dynamic{Declared: 1, Name: SpawnedName("charge", n)}}
	}
	machine := Task{Step: 0, State: Running, Traits: workflow.TraitMachine, Epoch: 2, Pod: 1, Lost: 1}
	run := Run{State: Running, Steps: workflow.MachineSteps, Remaining: OpenMax + 1, Dynamic: OpenMax, Slow: true}
	w := newWorld(t, ordering())
	for name, c := range map[string]struct {
		cancel []int32
		start  int
		class  string
	}{
		"starts none":                           {nil, 0, ""},
		"starts one":                            {nil, 1, ClassTooManyOpen},
		"cancels one that waits":                {[]int32{first}, 1, ""},
		"cancels it twice":                      {[]int32{first, first}, 2, ClassTooManyOpen},
		"cancels one that runs":                 {[]int32{first + 1}, 1, ClassTooManyOpen},
		"cancels one that has ended":            {[]int32{first + 2}, 1, ClassTooManyOpen},
		"cancels one that begins with it":       {[]int32{first + OpenMax}, 1, ""},
		"cancels that twice":                    {[]int32{first + OpenMax, first + OpenMax}, 2, ClassTooManyOpen},
		"cancels one that was not there before": {[]int32{first + OpenMax + 1}, 1, ClassTooManyOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Activation{Cancel: c.cancel}
			for range c.start {
				a.Start = append(a.Start, w.spawn("charge"))
			}
			rows := Rows{Complete: true, Tasks: []Task{machine, spawned(1, Queued), spawned(2, Running), spawned(3, Completed)}}
			d := Decide(run, rows, []Fact{TaskReported{Step: 0, Epoch: 2, Pod: 1, Kind: Yielded, Activation: &a}}, w.now)
			require.Equal(t, c.class == "", d.Activated)
			require.Equal(t, c.class, d.Tasks[0].Class)
			if c.class == "" {
				require.Len(t, d.Created, c.start)
				require.Zero(t, d.Tasks[0].Lost)
				return
			}
			require.Empty(t, d.Created)
			require.Equal(t, []Death{{Step: 0, Reason: NonRetryable}}, d.Dead)
			require.Equal(t, []Answer{AlreadyYours}, Decide(d.Run, Rows{Complete: true, Tasks: d.Tasks},
				[]Fact{TaskReported{Step: 0, Epoch: 2, Pod: 1, Kind: Yielded, Activation: &a}}, w.now).Answers, "the same report again")
		})
	}
}

// A machine takes no part in what storage records without a decision.
func TestTheFastPathKnowsNoMachines(t *testing.T) {
	t.Parallel()
	w := running(t, ordering())
	require.True(t, w.run.Slow)
	child := func(step int32) Task { return *w.task(step) }
	require.False(t, TakesFastPath(w.run, *w.task(0), child))
	w.apply(w.activatingWith(Activation{}, "charge"))
	require.False(t, TakesFastPath(w.run, *w.task(1001), child))
}

// The claim of a machine is no event. Its epoch grows all the same.
func TestTheClaimOfAMachineIsNoEvent(t *testing.T) {
	t.Parallel()
	task, event := Claim(Task{State: Queued, Traits: workflow.TraitMachine, Epoch: 7}, 3, time.Unix(0, 0))
	require.Equal(t, Task{State: Running, Traits: workflow.TraitMachine, Epoch: 8, Pod: 3}, task)
	require.Zero(t, event)
}

// A machine hears of a cancel once, if it says so and has not ended.
func TestAMachineHearsOfOneCancel(t *testing.T) {
	t.Parallel()
	require.True(t, (&Task{Sleep: 1, State: Waiting}).hearsCancel())
	require.False(t, (&Task{Sleep: 0, State: Waiting}).hearsCancel())
	require.False(t, (&Task{Sleep: 1, State: Waiting, Flags: FlagStop}).hearsCancel())
	require.False(t, (&Task{Sleep: 1, State: Failed}).hearsCancel())
}

// Of two activations in one batch, the one of the attempt that is over changes nothing.
func TestTwoActivationsInOneBatch(t *testing.T) {
	t.Parallel()
	w := running(t, ordering())
	first := w.activatingWith(Activation{}, "charge")
	w.apply(first)
	w.signal("paid")
	w.claim(0, 1)
	d := w.apply(first, w.activatingWith(Activation{Heard: 1}, "charge"), first)
	require.Equal(t, []Answer{Stale, Moved, Stale}, d.Answers)
	require.Len(t, d.Created, 1)
	require.Equal(t, "charge#2", d.Created[0].Dynamic.Name)
}

// Refused signals are written as other texts are.
func TestTextsOfMachinesAreClean(t *testing.T) {
	t.Parallel()
	w := running(t, ordering())
	w.signal("paid")
	d := w.apply(w.activatingWith(Activation{Refused: []RefusedSignal{{"paid\x00", "no\xff"}}}))
	require.Equal(t, "paid", d.Events[1].By)
	require.Equal(t, "no\uFFFD", d.Events[1].Text)
}

// A number that no store counts up to is none of an entry.
func TestActivationsOfOtherEntriesAreIllegal(t *testing.T) {
	t.Parallel()
	w := running(t, ordering())
	for _, taken := range []int64{-1, 1, math.MaxInt64} {
		for _, kind := range []ReportKind{Yielded, Succeeded} {
			d := w.apply(w.report(0, TaskReported{Kind: kind, Activation: &Activation{Taken: taken}}))
			require.Equal(t, []Answer{Illegal}, d.Answers)
			require.False(t, d.Activated)
		}
	}
}
