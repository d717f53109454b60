package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// chatter has a machine hear so many signals, in batches, and start and cancel something with each
// activation; charge is what each third one executes. It returns the states that it left, by the
// number of entries that it had handled.
func (w *world) chatter(run workflow.RunID, p *worker, g *workflow.Graph, signals int) map[int64]string {
	w.t.Helper()
	left := map[int64]string{}
	for round := 0; signals > 0; round++ {
		n := min(signals, persistence.SignalBatchMax)
		signals -= n
		w.signalsFor(run, "noted", fmt.Sprintf("r%d-", round), n, nil)
		m := p.claimStep("machine")
		state := fmt.Sprintf(`"%d after %d"`, m.Machine.Arrived, m.Machine.Started)
		later := persistence.Spawn{Step: "window", WakeAt: w.ask().Now.Add(time.Hour)}
		t := activation(m, g, state, starts("charge", "x"), later)
		if m.Machine.Started > 1 {
			t = cancels(t, m.Machine.Started) // the timer of the one before
		}
		p.report(t)
		left[m.Machine.Arrived] = state
		charge := p.claim(1)[0]
		if round%3 == 0 {
			p.complete(charge)
		} else {
			p.fail(charge)
		}
	}
	m := p.claimStep("machine")
	p.report(activation(m, g, `"quiet"`))
	left[m.Machine.Arrived] = `"quiet"`
	return left
}

// machineTrimRules are about what is kept of machines that go on for long.
var machineTrimRules = []rule{
	{"machines/trimmed", "of a machine that hears much a bounded part is kept, from a state that it had", func(w *world) {
		run, p := w.machine(Order(), starts("ship", "1"))
		g := w.graph("order")
		left := w.chatter(run, p, g, persistence.MachineKeep+2_500)
		row := w.machineOf(run)
		require.NotZero(w.t, row.Base)
		require.Equal(w.t, left[row.Base], string(row.BaseState))
		require.Equal(w.t, `"quiet"`, string(row.State))
		require.Equal(w.t, row.Arrived, row.Taken)
		require.LessOrEqual(w.t, len(row.Entries), persistence.MachineKeep+persistence.MachineKeep/2)
		require.LessOrEqual(w.t, row.Entries[0].N, row.Base+1)
		for i, e := range row.Entries[1:] { // nothing is missing behind the base
			require.Equal(w.t, row.Entries[i].N+1, e.N)
		}
		kinds := map[int32]map[string]int{}
		for _, r := range w.snapshot().Runs {
			for _, e := range r.Events {
				if kinds[e.Step] == nil {
					kinds[e.Step] = map[string]int{}
				}
				kinds[e.Step][e.Kind.String()]++
			}
			require.LessOrEqual(w.t, len(r.Tasks), 60)
			require.NotNil(w.t, r.Task(1001), "what is open stays")
			require.Nil(w.t, r.Task(1002))
		}
		require.Equal(w.t, []int{1, 1, 1, 1}, []int{kinds[0]["trimmed"], kinds[-1]["trimmed"], kinds[-1]["run_created"], kinds[-1]["run_started"]})
		require.LessOrEqual(w.t, kinds[-1]["signaled"], persistence.MachineKeep+persistence.MachineKeep/2)
		w.delivers(run, "noted", "last")
		next := p.claimStep("machine")
		p.report(cancels(activation(next, g, `"canceled"`), 2)) // which was removed
		w.requireTasks(run, states{"machine": "waiting"})
		w.checkInvariants()
		w.delivers(run, "noted", "end")
		p.complete(p.claimStep("machine"))
		w.requireRun(run, lifecycle.Completed)
		w.archived(run)
	}},
	{"machines/history", "in history a machine is read as before, with all that it has heard and started", func(w *world) {
		child, current := w.with(Single()), order(2, time.Minute)
		w.with(current)
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), starts("ship", "3"), starts("sub", "4"),
			persistence.Spawn{Step: "window", WakeAt: w.ask().Now.Add(time.Second)}, persistence.Spawn{Step: "window", WakeAt: w.ask().Now.Add(time.Hour)})
		grants := p.claimAll()
		sub := w.yields(grants["sub#4"], child)
		p.report(sub)
		p.complete(grants["charge#1"])
		p.fail(grants["charge#2"])
		for w.drain(10).More {
		}
		q := w.pod(child)
		q.complete(q.claimStep("a"))
		w.drain(10)
		w.advance(time.Second)
		require.Equal(w.t, 1, w.fire().Count)
		w.delivers(run, "paid", "one")
		first := p.claimStep("machine")
		require.ElementsMatch(w.t, []string{"2 charge#1", "3 charge#2", "2 sub#4", "5 window#5", "6 paid"}, heard(first))
		t := cancels(activation(first, current, `"s1"`, starts("charge", "7")), 3, 6)
		t.Activation.Version = 2
		p.report(t)
		w.cancel(run)
		w.signalsFor(run, "noted", "late", 2, nil)
		last := p.claimAll()
		done := completion(last["machine"])
		done.Activation = activation(last["machine"], current, `"s2"`).Activation
		done.Activation.Version = 2
		p.report(done)
		p.fail(last["charge#7"])
		w.requireRun(run, lifecycle.Completed)
		row := w.machineOf(run)
		require.Len(w.t, row.Entries, 8)
		w.archived(run)
	}},
}

// archived has everything of an ended run be the same once it is in history.
func (w *world) archived(run workflow.RunID) {
	w.t.Helper()
	row, all, before := w.machineOf(run), w.everything([]workflow.RunID{run}), w.snapshotOf(run)
	require.NotZero(w.t, w.archive(0).Count)
	require.Equal(w.t, row, w.machineOf(run))
	require.Equal(w.t, all, w.everything([]workflow.RunID{run}))
	require.Equal(w.t, before, w.snapshotOf(run))
}

// snapshotOf returns what a store keeps of a run.
func (w *world) snapshotOf(run workflow.RunID) snapshot.Run {
	w.t.Helper()
	runs := w.snapshot().Runs
	return runs[slices.IndexFunc(runs, func(r snapshot.Run) bool { return r.ID == run })]
}
