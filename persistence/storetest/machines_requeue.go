package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// letterFor returns the dead letter of a task of a run.
func (w *world) letterFor(run workflow.RunID, step string) persistence.DeadLetter {
	w.t.Helper()
	for _, l := range call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{})).must(w) {
		if l.Task.Run == run && l.Step == step {
			return l
		}
	}
	w.t.Fatalf("run %v has no dead letter of %s", run, step)
	return persistence.DeadLetter{}
}

// broken starts a machine whose second activation stores "s1", and whose third one fails: an
// activity has failed and one has completed since, a signal has come, a timer sleeps until the
// returned instant, and another activity waits in a queue that the pod does not serve.
func (w *world) broken() (workflow.RunID, *worker, time.Time) {
	w.t.Helper()
	at := lifecycle.Instant(w.ask().Now.Add(48 * time.Hour))
	run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), starts("charge", "3"),
		persistence.Spawn{Step: "window", WakeAt: at}, starts("ship", "5"))
	grants := p.claimExactly(3, 3)
	w.delivers(run, "noted", "read")
	p.complete(grants[0])
	p.report(activation(p.claimStep("machine"), w.graph("order"), `"s1"`))
	p.fail(grants[1])
	p.complete(grants[2])
	w.delivers(run, "paid", "unread")
	third := p.claimStep("machine")
	require.Equal(w.t, []string{"3 charge#2", "2 charge#3", "6 paid"}, heard(third))
	p.fail(third)
	w.requireRun(run, lifecycle.Failed)
	return run, p, at
}

var machineRequeueRules = []rule{
	{"machines/requeue", "a requeued machine continues from its state, and only what did not complete is executed again", func(w *world) {
		for _, archived := range []bool{false, true} {
			run, p, at := w.broken()
			if archived {
				w.archive(0)
			}
			answer := w.goOnFrom(run, "machine")
			require.Equal(w.t, []any{1, 2}, []any{answer.Kept, answer.Letters})
			w.requireTasks(answer.Run, states{"machine": "queued", "charge#2": "queued", "charge#3": "completed", "window#4": "sleeping", "ship#5": "queued"})
			require.Len(w.t, w.tasks(answer.Run), 5)
			grants := p.claimAll()
			require.Len(w.t, grants, 2)
			again, m := grants["charge#2"], grants["machine"]
			require.Equal(w.t, []any{run, `"2"`, "charge", int32(1)}, []any{again.KeyRun, string(again.Item), again.Declared, again.Attempt})
			require.Equal(w.t, []string{"2 charge#3", "6 paid"}, heard(m))
			require.Equal(w.t, []any{int32(1), `"s1"`, int64(2), int64(5), int32(5)}, []any{
				m.Machine.Version, string(m.Machine.State), m.Machine.Taken, m.Machine.Arrived, m.Machine.Started,
			})
			require.Equal(w.t, []any{`"charge#3"`, int64(4), int64(5)}, []any{string(m.Machine.Entries[0].Payload), m.Machine.Entries[0].N, m.Machine.Entries[1].N})
			for _, timer := range w.snapshot().Timers {
				if timer.Run == answer.Run {
					require.True(w.t, timer.At.Equal(at), "%v, not %v", timer.At, at)
				}
			}
			p.report(activation(m, w.graph("order"), `"s2"`, starts("charge", "6")))
			p.complete(again)
			next := p.claimAll()
			require.Equal(w.t, []string{"2 charge#2"}, heard(next["machine"]))
			require.EqualValues(w.t, 6, next["machine"].Machine.Arrived)
			require.Contains(w.t, next, "charge#6")
			row := w.machineOf(answer.Run)
			require.Equal(w.t, []any{int64(2), `"s1"`, int32(1), int64(5)}, []any{row.Base, string(row.BaseState), row.BaseVersion, row.Taken})
			require.Len(w.t, row.Entries, 3)
			p.complete(next["machine"], next["charge#6"])
			w.requireRun(answer.Run, lifecycle.Completed)
			w.requireRun(run, lifecycle.Failed)
		}
	}},
	{"machines/requeue_canceled", "what the machine has canceled stays canceled, what its end or that of the run has canceled begins again", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), starts("charge", "3"), starts("ship", "4"), starts("ship", "5"))
		grants := p.claimExactly(3, 3)
		w.delivers(run, "noted", "go")
		p.report(cancels(activation(p.claimStep("machine"), w.graph("order"), `"s1"`), 1, 4))
		w.delivers(run, "noted", "again")
		p.fail(p.claimStep("machine"))
		p.fail(grants[0])
		p.fail(grants[1])
		p.complete(grants[2]) // behind the end of the machine
		w.requireRun(run, lifecycle.Failed)
		w.requireTasks(run, states{"charge#1": "canceled", "charge#2": "canceled", "charge#3": "completed", "ship#4": "canceled", "ship#5": "canceled"})
		answer := w.goOnFrom(run, "machine")
		require.Equal(w.t, 1, answer.Kept)
		w.requireTasks(answer.Run, states{"machine": "queued", "charge#2": "queued", "charge#3": "completed", "ship#5": "queued"})
		require.Len(w.t, w.tasks(answer.Run), 4)
		m := p.claimAll()["machine"]
		require.Equal(w.t, []string{"6 noted", "2 charge#3"}, heard(m))
		require.EqualValues(w.t, 3, m.Machine.Arrived)
	}},
	{"machines/requeue_run_canceled", "a canceled run continues with what its cancel has ended, and without the cancel", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"), starts("charge", "3"), starts("ship", "4"))
		p.fail(p.claimStep("charge#1"))
		running := p.claimAll()
		w.cancel(run)
		p.report(cancels(activation(running["machine"], w.graph("order"), `"s1"`), 2))
		held := p.claimStep("machine")
		require.Equal(w.t, []string{"7 "}, heard(held))
		w.advance(10 * time.Second)
		w.cancel(run)
		w.requireTasks(run, states{"machine": "running", "ship#4": "canceled", "charge#2": "running"})
		p.fail(running["charge#2"])
		p.fail(held)
		p.complete(running["charge#3"])
		w.requireRun(run, lifecycle.Canceled)
		require.Equal(w.t, persistence.LetterLeftBehind, w.requeue(persistence.RequeueOrder{Letter: w.letterFor(run, "charge#1").Task}).Result)
	}},
	{"machines/requeue_canceled_early", "a run that was canceled while its machine had a failure to handle continues", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"), starts("ship", "2"), starts("charge", "3"))
		grants := p.claimExactly(2, 2)
		p.fail(grants[0])
		held := p.claimStep("machine")
		w.cancel(run)
		w.advance(10 * time.Second)
		w.cancel(run)
		p.report(activation(held, w.graph("order"), `"s1"`))
		p.complete(grants[1])
		w.requireRun(run, lifecycle.Canceled)
		answer := w.goOnFrom(run, "charge#1")
		require.Equal(w.t, 1, answer.Kept)
		w.requireTasks(answer.Run, states{"machine": "queued", "charge#1": "queued", "ship#2": "queued", "charge#3": "completed"})
		m := p.claimAll()["machine"]
		require.Equal(w.t, []string{"2 charge#3"}, heard(m))
		require.Equal(w.t, `"s0"`, string(m.Machine.State))
		require.False(w.t, m.Canceling)
	}},
	{"machines/requeue_handled", "the letter of a failure that the machine has handled is not requeued", func(w *world) {
		for _, archived := range []bool{false, true} {
			run, p := w.machine(Order(), starts("charge", "1"), starts("charge", "2"))
			grants := p.claimExactly(2, 2)
			p.fail(grants[0])
			l := w.letterFor(run, "charge#1")
			require.True(w.t, l.Handled)
			order := persistence.RequeueOrder{Letter: l.Task}
			require.Equal(w.t, persistence.RunGoesOn, w.requeue(order).Result)
			p.report(activation(p.claimStep("machine"), w.graph("order"), `"s1"`))
			require.Equal(w.t, persistence.RunGoesOn, w.requeue(order).Result)
			p.fail(grants[1])
			p.fail(p.claimStep("machine"))
			w.requireRun(run, lifecycle.Failed)
			require.False(w.t, w.letterFor(run, "machine").Handled)
			if archived {
				w.archive(0)
			}
			require.Equal(w.t, persistence.RequeueAnswer{Result: persistence.LetterLeftBehind}, w.requeue(order))
			require.Zero(w.t, w.letterFor(run, "charge#1").Requeues)
			require.Zero(w.t, w.drain(10).Count)
			answer := w.goOnFrom(run, "charge#2")
			w.requireTasks(answer.Run, states{"machine": "queued", "charge#2": "queued"})
			require.Len(w.t, w.tasks(answer.Run), 2)
			p.complete(p.claimAll()["machine"])
			order.Fresh, order.Again = true, true
			require.Equal(w.t, persistence.RequeueStored, w.requeue(order).Result)
			require.Equal(w.t, 1, w.drain(10).Count)
			fresh := p.claimStep("machine")
			require.Equal(w.t, []any{&persistence.MachineGrant{}, workflow.RunID{}}, []any{fresh.Machine, fresh.KeyRun})
			p.complete(fresh)
		}
	}},
	{"machines/requeue_completed", "a machine that has completed does not go on", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"))
		charge := p.claimStep("charge#1")
		w.delivers(run, "noted", "go")
		m := p.claimStep("machine")
		p.fail(charge)
		p.complete(m)
		w.requireRun(run, lifecycle.Completed)
		require.Equal(w.t, persistence.LetterLeftBehind, w.requeue(persistence.RequeueOrder{Letter: w.letterFor(run, "charge#1").Task}).Result)
	}},
	{"machines/requeue_again", "a requeued machine can be requeued, and numbers and keys continue", func(w *world) {
		run, p, _ := w.broken()
		first := w.goOnFrom(run, "machine")
		grants := p.claimAll()
		p.report(activation(grants["machine"], w.graph("order"), `"s2"`, starts("charge", "6")))
		p.fail(grants["charge#2"])
		p.fail(p.claimAll()["machine"])
		w.fire()
		for _, g := range p.claimAll() {
			p.fail(g)
		}
		charge := w.tasks(first.Run)["charge#6"]
		if charge.State == lifecycle.Running {
			w.advance(time.Minute)
			w.fire()
			w.requireTasks(first.Run, states{"charge#6": "canceled"})
		}
		w.requireRun(first.Run, lifecycle.Failed)
		second := w.goOnFrom(first.Run, "machine")
		p = w.pod()
		grants = p.claimAll()
		m := grants["machine"].Machine
		require.Equal(w.t, []any{`"s2"`, int64(5), int64(6), int32(6)}, []any{string(m.State), m.Taken, m.Arrived, m.Started})
		require.Equal(w.t, []any{run, run, `"2"`, `"6"`}, []any{
			grants["charge#2"].KeyRun, grants["charge#6"].KeyRun, string(grants["charge#2"].Item), string(grants["charge#6"].Item),
		})
		w.requireTasks(second.Run, states{"window#4": "sleeping", "ship#5": "queued"})
	}},
	{"machines/requeue_children", "a child run that its machine's end has stopped begins as another one", func(w *world) {
		w.with(Single())
		run, p := w.machine(Order(), persistence.Spawn{Step: "sub", Input: []byte(`"x"`)})
		begun := w.yields(p.claimStep("sub#1"), Single())
		p.report(begun)
		w.drain(10)
		w.delivers(run, "noted", "go")
		p.fail(p.claimAll()["machine"])
		w.requireRun(run, lifecycle.Failed)
		for w.drain(10).Requests > 0 {
			w.wakeParents()
		}
		answer := w.goOnFrom(run, "machine")
		sub := p.claimAll()["sub#1"]
		require.Equal(w.t, []any{answer.Run, run, `"x"`}, []any{sub.Task.Run, sub.KeyRun, string(sub.Item)})
		again := w.yields(sub, Single())
		p.report(again)
		require.Equal(w.t, again.Child.Run, w.tasks(answer.Run)["sub#1"].Child)
		require.NotEqual(w.t, begun.Child.Run, again.Child.Run)
	}},
	{"machines/requeue_later", "a requeued machine begins no earlier than asked, and can be canceled before", func(w *world) {
		run, p, _ := w.broken()
		l := w.letterFor(run, "machine")
		answer := w.requeue(persistence.RequeueOrder{Letter: l.Task, At: w.ask().Now.Add(time.Hour)})
		require.Equal(w.t, 1, w.drain(10).Count)
		w.requireTasks(answer.Run, states{"machine": "pending", "charge#2": "pending", "charge#3": "completed", "window#4": "pending"})
		require.Empty(w.t, p.claimAll())
		w.advance(time.Hour)
		w.fire()
		p = w.pod()
		w.requireTasks(answer.Run, states{"machine": "queued", "charge#2": "queued", "window#4": "sleeping"})
		require.Len(w.t, p.claimAll(), 2)

		for _, drained := range []bool{false, true} {
			answer = w.requeue(persistence.RequeueOrder{Letter: l.Task, Again: true, At: w.ask().Now.Add(time.Hour)})
			if drained {
				w.drain(10)
			}
			w.cancel(answer.Run)
			w.requireRun(answer.Run, lifecycle.Canceled)
			w.drain(10)
			w.requireTasks(answer.Run, states{"charge#2": "canceled", "window#4": "canceled"})
		}
	}},
	{"machines/requeue_program", "a requeued machine continues with the program that executed it last", func(w *world) {
		run, p := w.machine(Order(), starts("charge", "1"))
		later := order(2, time.Minute)
		w.with(later)
		p.fail(p.claimStep("charge#1"))
		newer := w.pod(later)
		newer.report(activation(newer.claimStep("machine"), later, `"s1"`, starts("charge", "2")))
		require.Equal(w.t, later.Hash, w.run(run).Definition)
		w.delivers(run, "noted", "go")
		newer.fail(newer.claimAll()["machine"])
		w.advance(time.Minute)
		w.fire()
		w.requireRun(run, lifecycle.Failed)
		answer := w.goOnFrom(run, "machine")
		require.Equal(w.t, later.Hash, w.run(answer.Run).Definition)
		newer = w.pod(later)
		require.Contains(w.t, newer.claimAll(), "charge#2")
	}},
	{"requeue/run_options", "what is to hold for a requeued run comes with each grant of it, and not with those of the next", func(w *world) {
		options := persistence.RunOptions{Retry: &workflow.RetryPolicy{Attempts: 3, First: time.Second}, AttemptTimeout: time.Minute}.Encode()
		require.NotEmpty(w.t, options)
		_, p := w.startWithPod(Chain(2))
		p.finishBut("s1")
		answer := w.goOn("s1", persistence.RequeueOrder{Options: options})
		kept := p.claimStep("s0")
		require.Equal(w.t, options, kept.Options)
		g := p.inlineOne([]persistence.Grant{kept})[0]
		require.Equal(w.t, []any{"s1", options}, []any{g.Step, g.Options})
		p.report(retry(g, time.Second))
		w.advance(time.Second)
		require.Equal(w.t, 1, w.fire().Count)
		g = p.claimStep("s1")
		require.Equal(w.t, []any{answer.Run, options}, []any{g.Task.Run, g.Options})
		p.fail(g)
		w.archive(0)
		w.goOnFrom(answer.Run, "s1")
		require.Empty(w.t, p.claimStep("s0").Options)
	}},
	{"dead/handled", "a letter says whether the failure was handled", func(w *world) {
		_, p := w.startWithPod(Mixed(workflow.FinishSiblings))
		grants := p.claimAll()
		p.fail(grants["bad"])
		require.False(w.t, w.letters()["bad"].Handled)
		g := Graph(workflow.Definition{Name: "handled", Output: 1, Steps: []workflow.Step{{Name: "may"}, {Name: "then", Parents: settled(0)}}})
		_, p = w.startWithPod(g)
		p.fail(p.claimAll()["may"])
		p.fail(p.claimStep("then"))
		letters := w.letters()
		require.Equal(w.t, []bool{true, false}, []bool{letters["may"].Handled, letters["then"].Handled})
		require.True(w.t, call(w.store.DeadLetter(w.ctx, tenantA, letters["may"].Task)).must(w).Handled)
	}},
}
