package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var requeueRules = []rule{
	{"requeue/goes_on", "the new run takes over what completed and executes the rest", func(w *world) {
		old, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		both := p.claimAll()
		p.complete(both["b"])
		p.fail(both["c"])
		w.requireRun(old, lifecycle.Failed)
		answer := w.goOn("c", persistence.RequeueOrder{})
		require.Equal(w.t, 2, answer.Kept)
		require.Equal(w.t, 1, answer.Letters)
		rest := p.takeOver()
		require.Len(w.t, rest, 1)
		require.Equal(w.t, `"a"`, string(rest["c"].Parents[0].Output))
		require.Equal(w.t, old, rest["c"].KeyRun)
		w.requireTasks(answer.Run, states{"a": "completed", "b": "completed", "c": "running", "d": "pending"})
		p.complete(rest["c"])
		p.finish()
		row := w.run(answer.Run)
		require.Equal(w.t, lifecycle.Completed, row.State)
		require.Equal(w.t, persistence.OriginRequeue, row.Origin)
		require.Equal(w.t, `"d"`, string(row.Output))
		w.requireRun(old, lifecycle.Failed)
		l := w.letters()["c"]
		require.EqualValues(w.t, 1, l.Requeues)
		require.Equal(w.t, answer.Run, l.RequeuedAs)
		require.False(w.t, l.RequeuedAt.IsZero())
	}},
	{"requeue/once", "a letter is requeued once unless asked again; the same order is carried out once", func(w *world) {
		_, p := w.startWithPod(Single())
		p.fail(p.claimStep("a"))
		order := persistence.RequeueOrder{Letter: w.letters()["a"].Task, Run: w.runID()}
		first := w.requeue(order)
		require.Equal(w.t, persistence.RequeueStored, first.Result)
		require.Equal(w.t, 1, first.Letters)
		require.Equal(w.t, first, w.requeue(order), "the same order")
		second := order
		second.Run = w.runID()
		require.Equal(w.t, persistence.RequeueAnswer{Result: persistence.RequeuedBefore, Run: order.Run}, w.requeue(second))
		second.Again = true
		require.Equal(w.t, persistence.RequeueStored, w.requeue(second).Result)
		require.Equal(w.t, 2, w.drain(10).Count)
		l := w.letters()["a"]
		require.EqualValues(w.t, 2, l.Requeues)
		require.Equal(w.t, second.Run, l.RequeuedAs)
	}},
	{"requeue/too_early", "a run that has not ended is not doubled, one that is gone is not guessed", func(w *world) {
		_, p := w.startWithPod(Mixed(workflow.FinishSiblings))
		p.fail(p.claimAll()["bad"])
		task := w.letters()["bad"].Task
		require.Equal(w.t, persistence.RunGoesOn, w.requeue(persistence.RequeueOrder{Letter: task}).Result)
		require.Zero(w.t, w.letters()["bad"].Requeues)
		require.Zero(w.t, w.drain(10).Count)
	}},
	{"requeue/settled", "what saw the failure is executed again, what did not is not", func(w *world) {
		_, p := w.startWithPod(Mixed(workflow.FinishSiblings))
		grants := p.claimAll()
		p.fail(grants["bad"])
		p.complete(grants["side"], grants["start"])
		w.advance(2 * time.Hour)
		w.fire()
		p.renew()
		p.finish()
		answer := w.goOn("bad", persistence.RequeueOrder{})
		require.Equal(w.t, 4, answer.Kept, "side, tail, start, nap")
		rest := p.takeOver()
		require.Len(w.t, rest, 1)
		p.complete(rest["bad"])
		w.fire() // nap, at once
		rest = p.takeOver()
		require.Contains(w.t, rest, "watch")
		require.Contains(w.t, rest, "child")
		p.complete(rest["watch"], rest["child"])
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"requeue/sleeps", "a sleep that ended is not slept again", func(w *world) {
		_, p := w.startWithPod(Nap(24 * time.Hour))
		p.complete(p.claimStep("before"))
		w.advance(25 * time.Hour)
		w.fire()
		p.renew()
		p.fail(p.claimStep("after"))
		answer := w.goOn("after", persistence.RequeueOrder{})
		require.Empty(w.t, p.takeOver())
		w.requireTasks(answer.Run, states{"before": "completed", "nap": "sleeping"})
		require.Equal(w.t, 1, w.fire().Count)
		p.complete(p.claimStep("after"))
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"requeue/deadlines", "a step that is taken over cannot wait in the queue for too long", func(w *world) {
		w.start(w.with(Graph(workflow.Definition{Name: "hurry", Output: 2, Steps: []workflow.Step{
			{Name: "a", Options: workflow.Options{ScheduleToStart: time.Minute}},
			{Name: "b", Parents: plain(0), Options: workflow.Options{ScheduleToStart: time.Minute}},
			{Name: "c", Parents: plain(1)},
		}})))
		p := w.pod()
		p.complete(p.claimStep("a"))
		p.fail(p.claimStep("b"))
		answer := w.goOn("b", persistence.RequeueOrder{})
		require.Equal(w.t, 1, answer.Kept)
		w.advance(time.Hour)
		require.Zero(w.t, w.fire().Count)
		p = w.pod()
		rest := p.takeOver()
		require.Len(w.t, rest, 1)
		p.complete(rest["b"])
		p.finish()
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"requeue/input_conditions", "what conditions on the input said holds for the new run", func(w *world) {
		d := w.draft(w.with(InputBranch()))
		d.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
		w.trigger(d)
		p := w.pod()
		p.fail(p.claimStep("no"))
		answer := w.goOn("no", persistence.RequeueOrder{})
		p.complete(p.claimStep("no"))
		w.requireTasks(answer.Run, states{"yes": "skipped", "no": "completed"})
		p.finish()
		w.requireRun(answer.Run, lifecycle.Completed)

		other := w.goOn("no", persistence.RequeueOrder{
			Again: true, Judged: true, Edges: []persistence.EdgeResult{{Child: "no", Flags: lifecycle.FlagSkip}},
		})
		p.claimStep("yes")
		w.requireTasks(other.Run, states{"no": "skipped"})
	}},
	{"requeue/fresh", "a fresh start takes nothing over and may have another input", func(w *world) {
		_, p := w.startWithPod(Chain(2))
		p.finishBut("s1")
		require.Zero(w.t, w.goOn("s1", persistence.RequeueOrder{Fresh: true, Input: []byte(`"other"`)}).Kept)
		g := p.claimStep("s0")
		require.False(w.t, g.Kept)
		require.Equal(w.t, `"other"`, string(g.Input))
		refused := w.requeue(persistence.RequeueOrder{
			Letter: w.letters()["s1"].Task, Again: true, Fresh: true, Input: []byte(BadPayload),
		})
		require.Equal(w.t, persistence.RequeueRefused, refused.Result)
		require.Equal(w.t, persistence.TriggerBadRow, refused.Trigger)
		unknown := w.requeue(persistence.RequeueOrder{
			Letter: w.letters()["s1"].Task, Again: true, Fresh: true, Definition: workflow.Hash{1},
		})
		require.Equal(w.t, persistence.UnknownWorkflow, unknown.Trigger)
		require.EqualValues(w.t, 1, w.letters()["s1"].Requeues)
	}},
	{"requeue/unjudged", "an input that was not judged is taken only where no condition looks at it", func(w *world) {
		input := []byte(`"other"`)
		d := w.draft(w.with(InputBranch()))
		d.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
		w.trigger(d)
		p := w.pod()
		p.fail(p.claimStep("no"))
		order := persistence.RequeueOrder{Letter: w.letters()["no"].Task, Fresh: true, Input: input}
		require.Equal(w.t, persistence.RequeueAnswer{Result: persistence.InputUnjudged}, w.requeue(order))
		require.Zero(w.t, w.letters()["no"].Requeues)
		require.Zero(w.t, w.drain(10).Count)
		order.Judged = true
		require.Equal(w.t, persistence.RequeueStored, w.requeue(order).Result)

		w.start(w.with(Chain(2)))
		p = w.pod()
		p.finishBut("s1")
		answer := w.goOn("s1", persistence.RequeueOrder{Fresh: true, Input: input})
		require.Zero(w.t, answer.Kept)
		require.Equal(w.t, w.run(w.letters()["s1"].Task.Run).Definition, w.run(answer.Run).Definition)
	}},
	{"requeue/archived", "a run in history can go on as well", func(w *world) {
		old, p := w.startWithPod(Chain(3))
		p.finishBut("s2")
		require.Equal(w.t, 1, w.archive(0).Count)
		answer := w.goOn("s2", persistence.RequeueOrder{})
		require.Equal(w.t, 2, answer.Kept)
		rest := p.takeOver()
		p.complete(rest["s2"])
		w.requireRun(answer.Run, lifecycle.Completed)
		w.requireRun(old, lifecycle.Failed)
		require.Equal(w.t, 1, w.archive(0).Count, "the new run")
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"requeue/options", "queue, labels, trace and start may differ; a queue that does not exist is refused", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Labels, d.TraceContext = map[string]string{"color": "red"}, "of the trigger"
		w.trigger(d)
		p := w.pod()
		p.fail(p.claimStep("a"))
		task := w.letters()["a"].Task
		refused := w.requeue(persistence.RequeueOrder{Letter: task, Queue: "nowhere"})
		require.Equal(w.t, persistence.RequeueRefused, refused.Result)
		require.Equal(w.t, persistence.UnknownQueue, refused.Trigger)
		require.Zero(w.t, w.letters()["a"].Requeues)
		same := w.goOn("a", persistence.RequeueOrder{})
		require.Equal(w.t, d.Labels, w.run(same.Run).Labels)
		grant := p.claimStep("a")
		require.Equal(w.t, d.Labels, grant.Labels)
		require.Equal(w.t, d.TraceContext, grant.TraceContext)
		other := w.goOn("a", persistence.RequeueOrder{
			Again: true, Queue: "other", Labels: map[string]string{"color": "blue"}, TraceContext: "of the requeue",
		})
		require.Equal(w.t, "blue", w.run(other.Run).Labels["color"])
		grants := p.ask(p.requestFrom("other", 10)).Grants
		require.Len(w.t, grants, 1)
		require.Equal(w.t, "of the requeue", grants[0].TraceContext)
		later := w.goOn("a", persistence.RequeueOrder{Again: true, At: time.Now().Add(24 * 365 * 100 * time.Hour)})
		w.requireRun(later.Run, lifecycle.Pending)
		require.Empty(w.t, p.claim(10))
	}},
	{"requeue/lost", "a crash between taking over and completing costs nothing", func(w *world) {
		_, p := w.startWithPod(Chain(2))
		p.finishBut("s1")
		answer := w.goOn("s1", persistence.RequeueOrder{})
		first := p.claimStep("s0")
		require.True(w.t, first.Kept)
		p.report(persistence.Transition{Task: first.Task, Epoch: first.Epoch, Report: lifecycle.Released})
		second := p.claimStep("s0")
		require.True(w.t, second.Kept)
		require.Equal(w.t, `"s0"`, string(second.LastProgress))
		require.Greater(w.t, second.Epoch, first.Epoch)
		p.complete(second)
		p.complete(p.claimStep("s1"))
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
}

// requeue carries out an order under a new run's id, unless it has one.
func (w *world) requeue(order persistence.RequeueOrder) persistence.RequeueAnswer {
	w.t.Helper()
	if order.Run.IsZero() {
		order.Run = w.runID()
	}
	return call(w.store.RequeueDeadLetter(w.ctx, order)).must(w)
}

// goOn requeues the only dead letter of a step, starts the new run and returns
// it.
func (w *world) goOn(step string, order persistence.RequeueOrder) persistence.RequeueAnswer {
	w.t.Helper()
	order.Letter, order.Run = w.letters()[step].Task, w.runID()
	answer := w.requeue(order)
	require.Equal(w.t, persistence.RequeueStored, answer.Result)
	require.True(w.t, answer.Wake.Submitted)
	require.Equal(w.t, answer, w.requeue(order), "an answer that was lost is given again")
	w.drain(10)
	return answer
}

// takeOver completes every task that was claimed and is to be taken over, with
// its output of old, and returns the others.
func (p *worker) takeOver() map[string]persistence.Grant {
	p.w.t.Helper()
	rest := map[string]persistence.Grant{}
	for grants := p.claimAll(); len(grants) > 0; grants = p.claimAll() {
		for step, g := range grants {
			if !g.Kept {
				rest[step] = g
				continue
			}
			require.Equal(p.w.t, `"`+step+`"`, string(g.LastProgress))
			p.complete(g)
		}
	}
	return rest
}

// finishBut completes what it claims until it meets a step, which fails.
func (p *worker) finishBut(step string) {
	p.w.t.Helper()
	for grants := p.claimAll(); len(grants) > 0; grants = p.claimAll() {
		for name, g := range grants {
			if name == step {
				p.fail(g)
				return
			}
			p.complete(g)
		}
	}
	p.w.t.Fatalf("no task of %s", step)
}
