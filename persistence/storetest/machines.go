package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Order is a machine that starts charge and ship (in the queue "gpu"), the timer window and the
// child run sub, and hears the signals "paid" and "noted". It hears of a cancel, and may go on for
// a minute.
func Order() *workflow.Graph { return order(1, time.Minute) }

// Deaf is a machine that hears no signals, and of no cancel.
func Deaf() *workflow.Graph {
	return Graph(workflow.Definition{Name: "deaf", Steps: []workflow.Step{
		{Name: "machine", Kind: workflow.Machine, Version: 1},
		{Name: "charge", Spawned: true},
		{Name: "window", Kind: workflow.SleepUntil, WakeFrom: workflow.Input, Spawned: true},
	}})
}

func order(version int32, cancel time.Duration) *workflow.Graph {
	return Graph(workflow.Definition{Name: "order", Steps: []workflow.Step{
		{Name: "machine", Kind: workflow.Machine, Version: version, Sleep: cancel},
		{Name: "charge", Spawned: true},
		{Name: "ship", Spawned: true, Options: workflow.Options{Queue: "gpu"}},
		{Name: "window", Kind: workflow.SleepUntil, WakeFrom: workflow.Input, Spawned: true},
		{Name: "sub", Kind: workflow.ChildRun, Spawned: true, Child: workflow.ChildSpec{Workflow: "single", Output: workflow.OutputOf{Workflow: "single", Step: "a"}}},
		{Name: "paid", Kind: workflow.Wait, Signal: "paid", Spawned: true},
		{Name: "noted", Kind: workflow.Wait, Signal: "noted", Spawned: true},
	}})
}

// activation is the report of an activation that has handled what it was granted.
func activation(g persistence.Grant, program *workflow.Graph, state string, start ...persistence.Spawn) persistence.Transition {
	return persistence.Transition{
		Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Yielded, Activation: &persistence.Activation{
			Taken: g.Machine.Arrived, Heard: int32(len(g.Machine.Entries)), Version: 1, State: []byte(state), Definition: program.Hash, Start: start,
		},
	}
}

// cancels is an activation that cancels what the machine has started as these.
func cancels(t persistence.Transition, started ...int32) persistence.Transition {
	t.Activation.Cancel = started
	return t
}

// starts is an activity that an activation starts, with an input.
func starts(step, input string) persistence.Spawn {
	return persistence.Spawn{Step: step, Input: []byte(`"` + input + `"`)}
}

// machine starts a run of a machine whose first activation leaves a state and starts something.
func (w *world) machine(g *workflow.Graph, start ...persistence.Spawn) (workflow.RunID, *worker) {
	w.t.Helper()
	run, p := w.startWithPod(g)
	p.report(activation(p.claimStep("machine"), g, `"s0"`, start...))
	return run, p
}

// heard are the entries of an activation: kind and name of each.
func heard(g persistence.Grant) (list []string) {
	for _, e := range g.Machine.Entries {
		list = append(list, fmt.Sprintf("%d %s", e.Kind, e.Name))
	}
	return list
}

// machineOf returns how far the machine of a run has come, with its whole inbox.
func (w *world) machineOf(run workflow.RunID) persistence.MachineRow {
	w.t.Helper()
	row := call(w.store.Machine(w.ctx, tenantA, run, persistence.EntryQuery{Limit: persistence.EntriesMax})).must(w)
	for row.More {
		next := call(w.store.Machine(w.ctx, "", run, persistence.EntryQuery{After: row.Entries[len(row.Entries)-1].N, Limit: persistence.EntriesMax})).must(w)
		row.Entries, row.More = append(row.Entries, next.Entries...), next.More
	}
	return row
}

var machineRules = []rule{
	{"machines/completed", "a machine starts activities, waits without a place, hears how they end, and completes", func(w *world) {
		g := Order()
		run, p := w.startWithPod(g)
		first := p.claimStep("machine")
		require.Equal(w.t, &persistence.MachineGrant{}, first.Machine)
		require.Len(w.t, w.tasks(run), 1, "what it may start has no rows")
		out := p.report(activation(first, g, `"s0"`, starts("charge", "10"), starts("charge", "20")))
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 2}}, out.Wake.Ready)
		w.requireTasks(run, states{"machine": "waiting", "charge#1": "queued", "charge#2": "queued"})
		both := p.claimExactly(10, 2)
		for i, a := range both {
			require.Equal(w.t, []any{fmt.Sprintf("charge#%d", i+1), "charge", fmt.Sprintf(`"%d0"`, i+1), w.numbers[g][1]},
				[]any{a.Step, a.Declared, string(a.Item), a.Handler})
		}
		p.complete(both[1])
		second := p.claimStep("machine")
		require.Equal(w.t, []string{"2 charge#2"}, heard(second))
		require.Equal(w.t, []any{int32(1), `"s0"`, int64(0), int64(1), int32(2)}, []any{
			second.Machine.Version, string(second.Machine.State), second.Machine.Taken, second.Machine.Arrived, second.Machine.Started,
		})
		require.Equal(w.t, `"charge#2"`, string(second.Machine.Entries[0].Payload))
		p.complete(both[0]) // meanwhile
		w.requireTasks(run, states{"machine": "running"})
		p.report(activation(second, g, `"s1"`))
		w.requireTasks(run, states{"machine": "queued"})
		third := p.claimStep("machine")
		require.Equal(w.t, []string{"2 charge#1"}, heard(third))
		require.Equal(w.t, `"s1"`, string(third.Machine.State))
		done := completion(third)
		done.Activation = activation(third, g, `"s2"`).Activation
		p.report(done)
		w.requireRun(run, lifecycle.Completed)
		require.Equal(w.t, `"machine"`, string(w.run(run).Output))
		require.Equal(w.t, []string{"queued", "activated", "activated", "completed"}, w.events(run)["machine"])
		require.Equal(w.t, []string{"queued", "started", "completed"}, w.events(run)["charge#1"])
		row := w.machineOf(run)
		require.Equal(w.t, []any{`"s2"`, int64(2), int64(2), int32(2)}, []any{string(row.State), row.Taken, row.Arrived, row.Started})
		require.Len(w.t, row.Entries, 2)
	}},
	{"machines/failed", "a machine hears of an activity that fails for good, which leaves a letter and stops nothing", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "10"), starts("charge", "20"))
		both := p.claimExactly(10, 2)
		p.fail(both[0])
		w.requireTasks(run, states{"charge#1": "failed", "charge#2": "running"})
		g := p.claimStep("machine")
		require.Equal(w.t, []string{"3 charge#1"}, heard(g))
		require.Equal(w.t, []string{"test", "charge#1 broke"}, []string{g.Machine.Entries[0].Class, g.Machine.Entries[0].Error})
		require.Contains(w.t, w.letters(), "charge#1")
		p.fail(g)
		w.requireRun(run, lifecycle.Running)
		w.requireTasks(run, states{"machine": "failed", "charge#2": "running"})
		p.complete(both[1])
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "machine", w.run(run).FailedStep)
	}},
	{"machines/signals", "signals and ends come in one order, and what came before the machine began waits for it", func(w *world) {
		run := w.start(w.with(Order()))
		g := w.graph("order")
		p := w.pod()
		w.delivers(run, "paid", "early")
		w.sends(persistence.SignalUnknown, signalFor(run, "other", "x"))
		first := p.claimStep("machine")
		require.Equal(w.t, []string{"6 paid"}, heard(first))
		require.Equal(w.t, `"early"`, string(first.Machine.Entries[0].Payload))
		require.Zero(w.t, first.Machine.Version)
		p.report(activation(first, g, `"s0"`, starts("charge", "10")))
		charge := p.claimStep("charge#1")
		w.delivers(run, "noted", "one")
		p.complete(charge)
		w.delivers(run, "paid", "two")
		require.Equal(w.t, []string{"6 noted", "2 charge#1", "6 paid"}, heard(p.claimStep("machine")))
	}},
	{"machines/timers", "a timer fires; one that is canceled does not, even if it has fired and was not heard of", func(w *world) {
		at := w.ask().Now.Add(10 * time.Second)
		run, p := w.machine(Order(), persistence.Spawn{Step: "window", WakeAt: at}, persistence.Spawn{Step: "window", WakeAt: at.Add(10 * time.Second)},
			persistence.Spawn{Step: "window", WakeAt: at.Add(time.Hour)})
		g := w.graph("order")
		w.requireTasks(run, states{"window#1": "sleeping", "window#2": "sleeping", "window#3": "sleeping"})
		w.advance(10 * time.Second)
		require.Equal(w.t, 1, w.fire().Count)
		first := p.claimStep("machine")
		require.Equal(w.t, []string{"5 window#1"}, heard(first))
		w.advance(10 * time.Second)
		require.Equal(w.t, 1, w.fire().Count)
		p.report(cancels(activation(first, g, `"s1"`), 1, 2, 3))
		w.requireTasks(run, states{"window#2": "completed", "window#3": "canceled"})
		next := p.claimStep("machine")
		require.Empty(w.t, heard(next))
		require.EqualValues(w.t, 2, next.Machine.Arrived)
		p.report(activation(next, g, `"s2"`))
		w.requireTasks(run, states{"machine": "waiting"})
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count)
	}},
	{"machines/canceled_activities", "what waits is canceled at once; what runs is asked to stop, and fenced; success counts", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), starts("charge", "3"), starts("ship", "4"))
		g := w.graph("order")
		grants := p.claimExactly(3, 3)
		w.delivers(run, "noted", "go")
		p.report(cancels(activation(p.claimStep("machine"), g, `"s1"`), 1, 2, 3, 4))
		w.requireTasks(run, states{"charge#1": "running", "ship#4": "canceled"})
		require.Len(w.t, p.renew(grants...).Stopped, 3)
		p.complete(grants[0])
		p.report(retry(grants[1], time.Second))
		w.requireTasks(run, states{"charge#1": "completed", "charge#2": "canceled"})
		w.advance(40 * time.Second)
		w.fire()
		w.requireTasks(run, states{"charge#3": "canceled"})
		w.requireRecorded(p.send(p.batch(completion(grants[2]))), lifecycle.Stale)
		require.Equal(w.t, []string{"2 charge#1"}, heard(p.claimStep("machine")))
		require.Empty(w.t, w.letters())
	}},
	{"machines/canceled_at_once", "what an activation starts and cancels never begins, and a failure that was canceled is not heard of", func(w *world) {
		at := w.ask().Now.Add(time.Second)
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"))
		g := w.graph("order")
		both := p.claimExactly(10, 2)
		w.delivers(run, "noted", "go")
		m := p.claimStep("machine")
		p.fail(both[0]) // meanwhile
		p.complete(both[1])
		p.report(cancels(activation(m, g, `"s1"`, starts("charge", "3"), persistence.Spawn{Step: "window", WakeAt: at}, starts("sub", "5")), 1, 2, 3, 4, 5))
		w.requireTasks(run, states{"charge#1": "failed", "charge#3": "canceled", "window#4": "canceled", "sub#5": "canceled"})
		next := p.claimStep("machine")
		require.Equal(w.t, []string{"2 charge#2"}, heard(next))
		p.report(activation(next, g, `"s2"`))
		w.requireTasks(run, states{"machine": "waiting"})
		require.Empty(w.t, p.claimAll())
		w.advance(time.Hour)
		require.Zero(w.t, w.fire().Count)
	}},
	{"machines/canceled_child", "a child run that is canceled before its step has begun it does not begin", func(w *world) {
		g, single := Order(), Single()
		run, p := w.startWithPod(g, single)
		p.report(activation(p.claimStep("machine"), g, `"s0"`, starts("sub", "1"), starts("charge", "2")))
		sub := p.claimStep("sub#1")
		w.delivers(run, "noted", "go")
		grants := p.claimAll()
		p.report(cancels(activation(grants["machine"], g, `"s1"`), 1))
		w.requireTasks(run, states{"sub#1": "running"})
		p.report(w.yields(sub, single))
		w.requireTasks(run, states{"machine": "waiting", "sub#1": "canceled"})
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"machines/ended", "a machine that ends cancels what it has left open, and its run ends behind that", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), persistence.Spawn{Step: "window", WakeAt: w.ask().Now.Add(time.Hour)})
		running := p.claimStep("charge#1")
		w.delivers(run, "noted", "go")
		grants := p.claimAll()
		require.Contains(w.t, grants, "machine")
		p.complete(grants["machine"], grants["charge#2"])
		w.requireTasks(run, states{"machine": "completed", "window#3": "canceled", "charge#2": "completed", "charge#1": "running"})
		w.requireRun(run, lifecycle.Running)
		p.fail(running)
		w.requireTasks(run, states{"charge#1": "canceled"})
		w.requireRun(run, lifecycle.Completed)
		require.Empty(w.t, w.letters())
	}},
	{"machines/cancel", "a cancel is an entry for a machine that hears it; a second one ends the run", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"))
		g := w.graph("order")
		out := w.cancel(run)
		require.Equal(w.t, []any{lifecycle.Moved, lifecycle.Running}, []any{out.Result, out.State})
		require.Empty(w.t, out.Wake.Canceling)
		grants := p.claimAll()
		require.False(w.t, grants["charge#1"].Canceling)
		require.Nil(w.t, grants["charge#1"].Machine, "of a task that is granted with its machine")
		require.Equal(w.t, []string{"7 "}, heard(grants["machine"]))
		require.Equal(w.t, w.run(run).CancelReason, grants["machine"].Machine.Entries[0].Error)
		require.WithinDuration(w.t, out.Now, grants["machine"].Machine.Entries[0].At, time.Second)
		p.report(activation(grants["machine"], g, `"s1"`))
		w.requireTasks(run, states{"machine": "waiting"})
		require.Equal(w.t, lifecycle.AlreadyYours, w.cancel(run).Result, "it repeats the first")
		w.requireTasks(run, states{"machine": "waiting"})
		w.advance(11 * time.Second)
		require.Equal(w.t, lifecycle.Moved, w.cancel(run).Result)
		w.requireTasks(run, states{"machine": "canceled", "charge#1": "running"})
		p.fail(grants["charge#1"])
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"machines/cancel_late", "a machine that hears of a cancel and does not end in time is canceled", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"))
		w.cancel(run)
		grants := p.claimAll()
		p.report(activation(grants["machine"], w.graph("order"), `"s1"`))
		w.advance(time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"machine": "canceled", "charge#1": "running"})
		require.Equal(w.t, []workflow.RunID{run}, p.renew(grants["charge#1"]).Canceling)
		w.advance(time.Minute)
		w.fire()
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"machines/cancel_in_time", "a machine that completes in time after a cancel has completed, although what it has left open takes longer", func(w *world) {
		run, p := w.machine(order(1, 10*time.Second), starts("charge", "1"))
		w.cancel(run)
		grants := p.claimAll()
		p.complete(grants["machine"])
		w.requireTasks(run, states{"machine": "completed", "charge#1": "running"})
		w.advance(10 * time.Second)
		w.fire()
		p.fail(grants["charge#1"])
		w.requireRun(run, lifecycle.Completed)
	}},
	{"machines/stalled", "a machine that hears nothing and has nothing open fails", func(w *world) {
		run, _ := w.machine(Deaf())
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, lifecycle.ClassStalled, w.run(run).Class)
		require.Equal(w.t, []string{"queued", "activated", "failed"}, w.events(run)["machine"])
	}},
	{"machines/stalled_late", "a machine that cancels the last that it has open while it runs is activated once more, and fails", func(w *world) {
		run, p := w.machine(Deaf(), starts("charge", "1"), starts("charge", "2"))
		both := p.claimExactly(10, 2)
		p.complete(both[0])
		g := w.graph("deaf")
		p.report(cancels(activation(p.claimStep("machine"), g, `"s1"`), 2))
		w.requireTasks(run, states{"machine": "waiting", "charge#2": "running"})
		p.fail(both[1])
		w.requireTasks(run, states{"machine": "queued", "charge#2": "canceled"})
		last := p.claimStep("machine")
		require.Empty(w.t, last.Machine.Entries)
		p.report(activation(last, g, `"s1"`))
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, lifecycle.ClassStalled, w.run(run).Class)
	}},
}
