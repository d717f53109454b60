package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Growing is plan → tail, and beside it a sleep and a step of the queue "gpu". Its runs have a
// hole in their numbers when they have dynamic tasks, since it has no failure handler.
func Growing() *workflow.Graph { return growing("growing", nil) }

// GrowingRescued is Growing with the failure handler rescue.
func GrowingRescued() *workflow.Graph {
	return growing("rescued", &workflow.Step{Name: "rescue", Kind: workflow.Func})
}

func growing(name string, onFailure *workflow.Step) *workflow.Graph {
	return Graph(workflow.Definition{Name: name, Policy: workflow.FinishSiblings, OnFailure: onFailure, Output: 1, Steps: []workflow.Step{
		{Name: "plan"},
		{Name: "tail", Parents: plain(0)},
		{Name: "rest", Kind: workflow.Sleep, Sleep: time.Minute},
		{Name: "heavy", Options: workflow.Options{Queue: "gpu"}},
	}})
}

// dynamicFirst is the number of the first dynamic task of a run of Growing.
const dynamicFirst = 5

// grow completes a task that asks for dynamic tasks of a step.
func grow(g persistence.Grant, declared string, names ...string) persistence.Transition {
	t := completion(g)
	for _, name := range names {
		t.Make = append(t.Make, persistence.DynamicTask{Declared: declared, Name: name})
	}
	return t
}

// grown stores a run of a graph whose plan has completed and made tasks, and whose tail,
// rest and heavy have ended.
func (w *world) grown(g *workflow.Graph, names ...string) (workflow.RunID, *worker) {
	w.t.Helper()
	run, p := w.startWithPod(g)
	p.report(grow(p.claimStep("plan"), "plan", names...))
	p.complete(p.claimHeavy()...)
	w.advance(2 * time.Minute)
	w.fire()
	q := w.pod()
	return run, q
}

// claimHeavy claims what waits in the queue "gpu".
func (p *worker) claimHeavy() []persistence.Grant {
	p.w.t.Helper()
	return p.ask(p.requestFrom("gpu", 10)).Grants
}

var dynamicRules = []rule{
	{"dynamic/made_once", "a success makes the tasks that it asks for, once, and the run ends only after them", func(w *world) {
		run, p := w.startWithPod(Growing())
		plan := p.claimStep("plan")
		record := p.batch(grow(plan, "plan", "plan#1", "plan#2"))
		w.requireRecorded(p.send(record), lifecycle.Moved)
		w.requireRecorded(p.send(record), lifecycle.AlreadyYours)
		stale := grow(plan, "plan", "plan#3")
		stale.Epoch++
		w.requireRecorded(p.send(p.batch(stale)), lifecycle.Stale)
		grants := p.claimAll()
		require.Len(w.t, grants, 3, "tail and two more")
		for name, step := range map[string]int32{"plan#1": dynamicFirst, "plan#2": dynamicFirst + 1} {
			g := grants[name]
			require.Equal(w.t, workflow.TaskID{Run: run, Step: step}, g.Task)
			require.Equal(w.t, "plan", g.Declared)
			require.Equal(w.t, plan.Handler, g.Handler)
			require.Equal(w.t, `"input"`, string(g.Input))
			require.Empty(w.t, g.Parents)
		}
		require.Empty(w.t, grants["tail"].Declared)
		p.complete(grants["tail"])
		p.complete(p.claimHeavy()...)
		w.advance(2 * time.Minute)
		w.fire()
		p = w.pod()
		w.expire()
		w.requireRun(run, lifecycle.Running)
		grants = p.claimAll()
		require.EqualValues(w.t, 1, grants["plan#1"].Lost)
		p.complete(grants["plan#1"], grants["plan#2"])
		w.requireRun(run, lifecycle.Completed)
		w.requireTasks(run, states{"plan": "completed", "plan#1": "completed", "plan#2": "completed"})
		require.Equal(w.t, []string{"queued", "started", "lost", "started", "completed"}, w.events(run)["plan#2"])
	}},
	{"dynamic/read", "readers see dynamic tasks as others, under their own names", func(w *world) {
		run, p := w.grown(Growing(), "plan#1")
		require.Equal(w.t, []string{"plan", "tail", "rest", "heavy", "", "plan#1"}, call(w.store.StepNames(w.ctx, tenantA, run)).must(w))
		s := call(w.store.Situation(w.ctx, tenantA, run)).must(w)
		require.Equal(w.t, "plan#1", s.Tasks[len(s.Tasks)-1].Name)
		require.Equal(w.t, 2, call(w.store.Queues(w.ctx, tenantA)).must(w)[0].Ready)
		p.finish()
		for range 2 {
			head := call(w.store.Payload(w.ctx, tenantA, run, "plan#1", 100)).must(w)
			require.Equal(w.t, `"plan#1"`, string(head.Data))
			require.Equal(w.t, lifecycle.Completed, head.State)
			call(w.store.Payload(w.ctx, tenantA, run, "plan#2", 100)).fails(w, persistence.ErrStepNotFound)
			task := workflow.TaskID{Run: run, Step: dynamicFirst}
			require.Equal(w.t, `"plan#1"`, string(call(persistence.Payload(w.ctx, w.store, task)).must(w)))
			task.Step--
			call(persistence.Payload(w.ctx, w.store, task)).fails(w, persistence.ErrRunNotFound)
			w.archive(0)
		}
	}},
	{"dynamic/queues", "a dynamic task waits in the queue of its step, a dynamic sleep for its timer", func(w *world) {
		run, p := w.startWithPod(Growing())
		t := grow(p.claimStep("plan"), "heavy", "heavy#1")
		t.Make = append(t.Make, persistence.DynamicTask{Declared: "rest", Name: "nap"})
		p.report(t)
		heavy := p.claimHeavy()
		require.Len(w.t, heavy, 2)
		require.Equal(w.t, "heavy#1", heavy[0].Step, "its run is under way")
		p.complete(heavy...)
		p.finish()
		w.requireTasks(run, states{"nap": "sleeping", "heavy#1": "completed"})
		require.False(w.t, w.tasks(run)["nap"].WakeAt.IsZero())
		w.advance(2 * time.Minute)
		require.Equal(w.t, 2, w.fire().Count)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"dynamic/stops", "what a run makes while it stops is canceled, and so is what waits", func(w *world) {
		run, p := w.startWithPod(Growing())
		plan := p.claimStep("plan")
		w.cancel(run)
		p.report(grow(plan, "plan", "plan#1"))
		w.requireTasks(run, states{"plan": "completed", "plan#1": "canceled"})
		w.requireRun(run, lifecycle.Canceled)
		require.False(w.t, w.tasks(run)["plan#1"].FinishedAt.IsZero())
		require.Equal(w.t, []string{"canceled"}, w.events(run)["plan#1"])

		other := w.start(w.graph("growing"))
		p.report(grow(p.claimStep("plan"), "plan", "plan#1"))
		w.cancel(other)
		w.requireTasks(other, states{"plan#1": "canceled", "rest": "canceled"})
		w.requireRun(other, lifecycle.Canceled)
	}},
	{"dynamic/fails", "a dynamic task that fails for good fails its run and leaves a dead letter under its name", func(w *world) {
		run, p := w.grown(GrowingRescued(), "plan#1", "plan#2")
		grants := p.claimAll()
		p.fail(grants["plan#2"])
		p.complete(grants["plan#1"], grants["tail"])
		rescue := p.claimStep("rescue")
		require.EqualValues(w.t, 4, rescue.Task.Step, "the number before those of dynamic tasks")
		require.Equal(w.t, []persistence.Outcome{
			{Step: "plan#2", Index: dynamicFirst + 1, State: lifecycle.Failed, Class: "test", Error: "plan#2 broke"},
		}, rescue.Failed)
		p.complete(rescue)
		for range 2 {
			row := w.run(run)
			require.Equal(w.t, []any{lifecycle.Failed, "plan#2", "test", "plan#2 broke"}, []any{row.State, row.FailedStep, row.Class, row.Error})
			require.Equal(w.t, []string{"plan", "tail", "rest", "heavy", "rescue", "plan#1", "plan#2"}, call(w.store.StepNames(w.ctx, tenantA, run)).must(w))
			l := w.letters()["plan#2"]
			require.Equal(w.t, w.graph("rescued").Nodes[0].Fingerprint, l.Handler)
			require.Equal(w.t, defaultQueue, l.Queue)
			for _, filter := range []persistence.RunFilter{{FailedStep: "plan#2"}, {Class: "test"}} {
				list := call(w.store.ListRuns(w.ctx, filter)).must(w)
				require.Len(w.t, list.Rows, 1, "%+v", filter)
				require.Equal(w.t, "plan#2", list.Rows[0].FailedStep)
			}
			end := call(w.store.Situation(w.ctx, tenantA, run)).must(w).End
			require.Equal(w.t, "plan#2", end.Failed[0].Name)
			detail := call(w.store.DeadLetter(w.ctx, tenantA, l.Task)).must(w)
			require.Empty(w.t, detail.Parents)
			require.Len(w.t, detail.Events, 3)
			w.archive(0)
		}
	}},
	{"dynamic/requeue", "the owner of a dynamic task that did not complete runs again, and makes it again", func(w *world) {
		run, p := w.grown(Growing(), "plan#1", "plan#2")
		grants := p.claimAll()
		p.fail(grants["plan#1"])
		p.complete(grants["plan#2"], grants["tail"])
		w.requireRun(run, lifecycle.Failed)
		w.archive(0)
		answer := w.goOn("plan#1", persistence.RequeueOrder{})
		require.Equal(w.t, 2, answer.Kept, "rest and heavy")
		again := p.claimStep("plan")
		require.False(w.t, again.Kept)
		p.report(grow(again, "plan", "plan#1"))
		rest := p.claimAll()
		require.Equal(w.t, run, rest["plan#1"].KeyRun)
		p.complete(rest["plan#1"], rest["tail"])
		for _, g := range p.claimHeavy() {
			require.True(w.t, g.Kept)
			p.complete(g)
		}
		w.fire()
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"dynamic/kept", "an owner whose dynamic tasks all completed is taken over without them", func(w *world) {
		run, p := w.grown(Growing(), "plan#1")
		grants := p.claimAll()
		p.complete(grants["plan#1"])
		p.fail(grants["tail"])
		w.requireRun(run, lifecycle.Failed)
		answer := w.goOn("tail", persistence.RequeueOrder{})
		require.Equal(w.t, 3, answer.Kept)
		require.NotContains(w.t, w.tasks(answer.Run), "plan#1")
	}},
	{"dynamic/refused", "a report that asks for what cannot be made fails its own attempt", func(w *world) {
		w.trigger(w.drafts(w.with(GrowingRescued()), tenantA, 8)...)
		p := w.pod()
		grants := p.claim(8)
		many := make([]string, persistence.DynamicMax+1)
		for i := range many {
			many[i] = "plan#" + itoa(i)
		}
		bad := []persistence.Transition{
			grow(grants[0], "unknown", "x"), grow(grants[1], "tail", "x"), grow(grants[2], "rescue", "x"), grow(grants[3], "plan", ""),
			grow(grants[4], "plan", "a\x00"), grow(grants[5], "plan", "tail"), grow(grants[6], "plan", "x", "x"), grow(grants[7], "plan", many...),
		}
		for i, answer := range p.send(p.batch(bad...)).Answers {
			require.Equal(w.t, lifecycle.BadRow, answer.Result, "%d", i)
			require.ErrorIs(w.t, answer.Err, persistence.ErrBadRow)
		}
		for _, g := range grants {
			w.requireTasks(g.Task.Run, states{"plan": "failed"})
			require.Equal(w.t, persistence.ClassBadRow, w.tasks(g.Task.Run)["plan"].Class)
		}
		require.Contains(w.t, w.tasks(grants[1].Task.Run)["plan"].Error, `step "tail" has parents`)
		late := grow(grants[0], "unknown", "x")
		w.requireRecorded(p.send(p.batch(late)), lifecycle.AlreadyYours)
		errored := failure(grants[0])
		errored.Make = late.Make
		w.requireRecorded(p.send(p.batch(errored)), lifecycle.AlreadyYours)
	}},
	{"dynamic/in_tx", "a step's own transaction makes tasks, too", func(w *world) {
		run, p := w.startWithPod(Growing())
		plan := p.claimStep("plan")
		record := p.batch()
		out := call(w.store.RecordInTx(w.ctx, record, func(context.Context, any) (persistence.Transition, error) {
			return grow(plan, "plan", "plan#1"), nil
		})).must(w)
		w.requireRecorded(out, lifecycle.Moved)
		w.requireTasks(run, states{"plan#1": "queued"})
	}},
	{"dynamic/many", "a dynamic task may be an owner of many, and all read the same from history", func(w *world) {
		run, p := w.grown(Growing(), "plan#1")
		names := make([]string, 100)
		for i := range names {
			names[i] = strings.Repeat("ü", 100) + itoa(i)
		}
		grants := p.claimAll()
		p.report(grow(grants["plan#1"], "plan", names...), completion(grants["tail"]))
		p.finish()
		w.requireRun(run, lifecycle.Completed)
		before := w.everything([]workflow.RunID{run})
		require.Equal(w.t, 1, w.archive(0).Count)
		require.Equal(w.t, before, w.everything([]workflow.RunID{run}))
	}},
}
