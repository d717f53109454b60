package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// signalsFor sends so many signals to a run, and delivers them.
func (w *world) signalsFor(run workflow.RunID, name, prefix string, n int, payload func(i int) []byte) {
	w.t.Helper()
	for sent := 0; sent < n; {
		var batch []persistence.Signal
		for ; sent < n && len(batch) < persistence.SignalBatchMax; sent++ {
			s := signalFor(run, name, fmt.Sprintf("%s%d", prefix, sent))
			if payload != nil {
				s.Payload = payload(sent)
			}
			batch = append(batch, s)
		}
		for _, answer := range call(w.store.SendSignals(w.ctx, batch)).must(w).Answers {
			require.Equal(w.t, persistence.SignalStored, answer.Result)
		}
		for w.drain(persistence.TriggerBatchMax).More {
		}
	}
}

// machineStoredRules are about what a store keeps of machines.
var machineStoredRules = []rule{
	{"machines/child", "a machine hears of the output of a child run, and of one that has failed", func(w *world) {
		child := w.with(Single())
		run, p := w.machine(Order(), starts("sub", "1"), starts("sub", "2"), starts("sub", "3"))
		g, begun := w.graph("order"), []workflow.RunID{}
		for _, sub := range p.claimExactly(10, 3) {
			require.Equal(w.t, "sub", sub.Declared)
			t := w.yields(sub, child)
			p.report(t)
			begun = append(begun, t.Child.Run)
		}
		w.requireTasks(run, states{"sub#1": "waiting", "sub#2": "waiting"})
		for w.drain(10).More {
		}
		p2 := w.pod()
		grants := p2.claimExactly(10, 3)
		p2.complete(grants[0])
		p2.fail(grants[1])
		w.drain(10)
		next := p.claimStep("machine")
		require.ElementsMatch(w.t, []string{"2 sub#1", "3 sub#2"}, heard(next))
		p.report(cancels(activation(next, g, `"s1"`), 3))
		w.requireTasks(run, states{"sub#3": "canceled"})
		w.drain(10)
		p2.fail(grants[2])
		w.requireRun(begun[2], lifecycle.Canceled)
	}},
	{"machines/versions", "a run continues with the program that executes it; an older activation is one of its handlers", func(w *world) {
		old, current := order(1, time.Minute), order(2, time.Minute)
		numbers := call(w.store.RegisterDefinitions(w.ctx, []*workflow.Graph{old, current}, []string{"gpu"})).must(w)
		require.Len(w.t, numbers[1], len(current.Nodes)+1)
		require.Equal(w.t, numbers[0][0], numbers[1][len(current.Nodes)], "of version 1")
		require.NotEqual(w.t, numbers[0][0], numbers[1][0])
		require.Equal(w.t, numbers, call(w.store.RegisterDefinitions(w.ctx, []*workflow.Graph{old, current}, nil)).must(w))
		stored, want := *call(w.store.Definition(w.ctx, current.Hash)).must(w), *current
		stored.Older, want.Older = nil, nil // they follow from the definition
		require.Equal(w.t, want, stored)
		w.with(old, current)
		run := w.start(old)
		p := w.pod(old, current)
		first := p.claimStep("machine")
		require.Equal(w.t, numbers[0][0], first.Handler)
		p.report(activation(first, old, `"s0"`, starts("charge", "1")))
		p.complete(p.claimStep("charge#1"))
		second := p.claimStep("machine")
		require.Equal(w.t, numbers[0][0], second.Handler, "what the run has")
		next := activation(second, current, `"s1"`, starts("charge", "2"), persistence.Spawn{Step: "window", WakeAt: w.ask().Now.Add(time.Hour)})
		next.Activation.Version = 2
		p.report(next)
		require.Equal(w.t, current.Hash, w.run(run).Definition)
		charge := p.claimStep("charge#2")
		require.Equal(w.t, []any{numbers[1][1], "charge"}, []any{charge.Handler, charge.Declared})
		p.complete(charge)
		third := p.claimStep("machine")
		require.Equal(w.t, []any{numbers[1][0], int32(2)}, []any{third.Handler, third.Machine.Version})
		w.requireTasks(run, states{"charge#1": "completed", "charge#2": "completed", "window#3": "sleeping"})
	}},
	{"machines/changed", "what a machine has started is of the step of its name, whatever program it has by now", func(w *world) {
		other := Graph(workflow.Definition{Name: "order", Steps: []workflow.Step{
			{Name: "machine", Kind: workflow.Machine, Version: 1}, {Name: "ship", Spawned: true},
		}})
		w.with(other)
		run, p := w.machine(Order(), starts("charge", "1"), starts("ship", "2"), starts("charge", "3"))
		w.delivers(run, "noted", "go")
		grants := p.claimAll()
		p.report(activation(grants["machine"], other, `"s1"`))
		require.Equal(w.t, "charge", grants["charge#1"].Declared)
		p.report(retry(grants["charge#1"], time.Second))
		w.advance(time.Second)
		w.fire()
		require.Equal(w.t, []string{"charge#1", "charge"}, func() []string {
			g := p.claimStep("charge#1")
			p.fail(g)
			return []string{g.Step, g.Declared}
		}())
		require.Contains(w.t, w.letters(), "charge#1")
		w.requireTasks(run, states{"charge#1": "failed", "ship#2": "queued", "charge#3": "running"})
		names := call(w.store.StepNames(w.ctx, tenantA, run)).must(w)
		require.Equal(w.t, []string{"machine", "ship", "", "charge#1", "ship#2", "charge#3"}, append(names[:3:3], names[1001:]...))
		call(w.store.Situation(w.ctx, tenantA, run)).must(w)
		require.Equal(w.t, other.Hash, w.run(run).Definition)
	}},
	{"machines/refused", "an activation that cannot be stored fails, and nothing of it is stored", func(w *world) {
		g := w.with(Order())
		p := w.pod()
		for text, change := range map[string]func(*persistence.Transition){
			"bad state":       func(t *persistence.Transition) { t.Activation.State = []byte(BadPayload) },
			"bad input":       func(t *persistence.Transition) { t.Activation.Start[0].Input = []byte(BadPayload) },
			"unknown step":    func(t *persistence.Transition) { t.Activation.Start[0].Step = "other" },
			"unknown program": func(t *persistence.Transition) { t.Activation.Definition = workflow.Hash{1} },
			"no instant":      func(t *persistence.Transition) { t.Activation.Start[0].Step = "window" },
		} {
			run := w.start(g)
			t := activation(p.claimStep("machine"), g, `"s0"`, starts("charge", "1"))
			change(&t)
			out := p.send(p.batch(t))
			w.requireRecorded(out, lifecycle.BadRow)
			require.ErrorIs(w.t, out.Answers[0].Err, persistence.ErrBadRow, text)
			w.requireRun(run, lifecycle.Failed)
			require.Equal(w.t, persistence.ClassBadRow, w.run(run).Class, text)
			require.Len(w.t, w.tasks(run), 1, text)
			require.Equal(w.t, persistence.MachineRow{}, w.machineOf(run), text)
		}
	}},
	{"machines/repeated", "an activation that is sent again is stored once, and a claim that is asked again grants the same", func(w *world) {
		run, p := w.startWithPod(Order())
		g := w.graph("order")
		w.delivers(run, "noted", "one")
		request := p.request(10)
		first := p.ask(request).Grants
		require.Equal(w.t, first, p.ask(request).Grants)
		t := activation(first[0], g, `"s0"`, starts("charge", "1"))
		p.report(t)
		before := w.snapshot()
		w.requireRecorded(p.send(p.batch(t)), lifecycle.AlreadyYours)
		require.Equal(w.t, before, w.snapshot())
		row := w.machineOf(run)
		require.Equal(w.t, []any{int64(1), int32(1), `"s0"`, int32(1)}, []any{row.Taken, row.Version, string(row.State), row.Started})
	}},
	{"machines/bounds", "an activation gets so many entries, of so many bytes, and the rest comes with the next", func(w *world) {
		run, p := w.machine(Order())
		g := w.graph("order")
		w.signalsFor(run, "noted", "n", persistence.EntriesMax+3, nil)
		first := p.claimStep("machine")
		require.Len(w.t, first.Machine.Entries, persistence.EntriesMax)
		require.EqualValues(w.t, persistence.EntriesMax, first.Machine.Arrived)
		p.report(activation(first, g, `"s1"`))
		second := p.claimStep("machine")
		require.Len(w.t, second.Machine.Entries, 3)
		p.report(activation(second, g, `"s2"`))
		w.requireTasks(run, states{"machine": "waiting"})
		large := bytes.Repeat([]byte("x"), persistence.EntriesBytes/2+1)
		w.signalsFor(run, "paid", "p", 2, func(int) []byte { return large })
		third := p.claimStep("machine")
		require.Len(w.t, third.Machine.Entries, 1)
		page := call(w.store.Machine(w.ctx, tenantA, run, persistence.EntryQuery{After: persistence.EntriesMax, Limit: 4})).must(w)
		require.Equal(w.t, []any{4, true}, []any{len(page.Entries), page.More})
		none := call(w.store.Machine(w.ctx, tenantA, run, persistence.EntryQuery{})).must(w)
		require.Equal(w.t, []any{0, false}, []any{len(none.Entries), none.More})
		call(w.store.Machine(w.ctx, tenantB, run, persistence.EntryQuery{})).fails(w, persistence.ErrRunNotFound)
		call(w.store.Machine(w.ctx, tenantA, w.start(w.with(Single())), persistence.EntryQuery{})).fails(w, persistence.ErrNoMachine)
	}},
}
