package storetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Parent is make → child (a run of the workflow "single") → after, and beside it make → side.
func Parent() *workflow.Graph { return parentOf("parent", Single(), workflow.ChildSpec{}) }

// Careless is Parent whose child run continues when its step is canceled.
func Careless() *workflow.Graph {
	return parentOf("careless", Single(), workflow.ChildSpec{Abandons: true})
}

// Judging is Parent of which a condition looks at the output of the child run.
func Judging() *workflow.Graph {
	return parentOf("judging", Single(), workflow.ChildSpec{}, workflow.Condition{Kind: workflow.SkipIf, Ref: 1})
}

func parentOf(name string, child *workflow.Graph, spec workflow.ChildSpec, conditions ...workflow.Condition) *workflow.Graph {
	spec.Workflow = child.Name
	spec.Output = workflow.OutputOf{Workflow: child.Name, Step: child.Nodes[child.Output].Name}
	return Graph(workflow.Definition{Name: name, Output: 2, Steps: []workflow.Step{
		{Name: "make"},
		{Name: "child", Kind: workflow.ChildRun, Child: spec, Parents: plain(0)},
		{Name: "after", Parents: plain(1), Conditions: conditions},
		{Name: "side", Parents: plain(0)},
	}})
}

// Empty is a workflow whose output step a condition may skip.
func Empty() *workflow.Graph {
	return Graph(workflow.Definition{Name: "empty", Output: 1, Steps: []workflow.Step{
		{Name: "x"}, {Name: "y", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.SkipIf, Ref: 0}}},
	}})
}

// Many is make and n child runs of "single" behind it.
func Many(n int) *workflow.Graph {
	steps := []workflow.Step{{Name: "make"}}
	child := Single()
	for i := range n {
		steps = append(steps, workflow.Step{
			Name: fmt.Sprintf("c%d", i), Kind: workflow.ChildRun, Parents: plain(0),
			Child: workflow.ChildSpec{Workflow: child.Name, Output: workflow.OutputOf{Workflow: child.Name, Step: "a"}},
		})
	}
	return Graph(workflow.Definition{Name: "many", Output: 1, Policy: workflow.FinishSiblings, Steps: steps})
}

// yields is the report of a step that begins a child run.
func (w *world) yields(g persistence.Grant, child *workflow.Graph) persistence.Transition {
	return persistence.Transition{
		Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Yielded,
		Child: &persistence.Child{
			Run: w.runID(), Definition: child.Hash, Workflow: child.Name, KeyRun: persistence.ChildKeys(g.Task.Run, g.Step),
			Input: []byte(`"` + g.Step + `"`), TraceContext: "trace",
		},
	}
}

// begins executes make and begins the child run of a parent.
func (w *world) begins(p *worker, run workflow.RunID, child *workflow.Graph) workflow.RunID {
	w.t.Helper()
	p.complete(p.claimStep("make"))
	rest := p.claimAll()
	t := w.yields(rest["child"], child)
	out := p.report(t)
	require.True(w.t, out.Wake.Submitted)
	p.complete(rest["side"])
	w.requireTasks(run, states{"child": "waiting", "after": "pending"})
	return t.Child.Run
}

// parent starts a parent of a graph and begins its child run.
func (w *world) parent(g, child *workflow.Graph) (run, begun workflow.RunID, p *worker) {
	w.t.Helper()
	w.with(g, child)
	p = w.pod()
	run = w.start(g)
	return run, w.begins(p, run, child), p
}

var childRules = []rule{
	{"children/completed", "a step begins a run and completes with its output, without a slot in between", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		d := w.draft(g)
		d.Labels = map[string]string{"team": "a"}
		w.trigger(d)
		id := w.begins(p, d.Run, child)
		row := w.run(id)
		require.Equal(w.t, lifecycle.Pending, row.State)
		require.Equal(w.t, []any{child.Name, persistence.OriginChild, d.Labels, workflow.TaskID{Run: d.Run, Step: 1}},
			[]any{row.Workflow, row.Origin, row.Labels, row.Parent})
		task := w.tasks(d.Run)["child"]
		require.Equal(w.t, id, task.Child)
		require.EqualValues(w.t, 1, task.Attempt)
		require.Empty(w.t, p.claim(10), "it has no place in a queue")
		require.Equal(w.t, 1, w.drain(10).Count)
		a := p.claimStep("a")
		require.Equal(w.t, `"child"`, string(a.Input))
		require.Equal(w.t, persistence.ChildKeys(d.Run, "child"), a.KeyRun)
		require.Equal(w.t, "trace", a.TraceContext)
		out := p.complete(a)
		require.True(w.t, out.Wake.Submitted)
		require.Equal(w.t, []workflow.RunID{id}, out.Wake.Ended)
		w.requireTasks(d.Run, states{"child": "waiting"})
		told := w.drain(10)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, told.Wake.Ready)
		require.Equal(w.t, []int{1, 0}, []int{told.Requests, told.Count + told.Delivered + told.Dropped})
		require.Equal(w.t, []string{"queued", "started", "waiting", "completed"}, w.events(d.Run)["child"])
		after := p.claimStep("after")
		require.Equal(w.t, `"a"`, string(after.Parents[0].Output))
		p.complete(after)
		w.requireRun(d.Run, lifecycle.Completed)
		require.Equal(w.t, []workflow.RunID{id}, w.list(persistence.RunFilter{Tenant: tenantA, Parent: d.Run}))
		before := w.everything([]workflow.RunID{d.Run, id})
		w.archive(0)
		require.Equal(w.t, before, w.everything([]workflow.RunID{d.Run, id}))
		require.Equal(w.t, []workflow.RunID{id}, w.list(persistence.RunFilter{Tenant: tenantA, Parent: d.Run}))
		require.Empty(w.t, w.list(persistence.RunFilter{Tenant: tenantA, Parent: id}))
	}},
	{"children/judged", "a step whose output conditions look at is completed by a pod", func(w *world) {
		run, _, p := w.parent(Judging(), Single())
		w.drain(10)
		p.complete(p.claimStep("a"))
		w.drain(10)
		g := p.claimStep("child")
		require.True(w.t, g.Kept)
		require.Equal(w.t, `"a"`, string(g.LastProgress))
		p.report(choose(g, "after"))
		w.requireTasks(run, states{"child": "completed", "after": "skipped"})
		require.Equal(w.t, `"a"`, string(w.tasks(run)["child"].Output))
		w.requireRun(run, lifecycle.Completed)
	}},
	{"children/failed", "a step fails with its child run, and says where", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		w.drain(10)
		p.fail(p.claimStep("a"))
		w.drain(10)
		row := w.tasks(run)["child"]
		require.Equal(w.t, []any{lifecycle.Failed, lifecycle.ClassChildFailed, int32(1)}, []any{row.State, row.Class, row.Attempt})
		require.Equal(w.t, `child run `+id.String()+` failed: step "a": a broke`, row.Error)
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, lifecycle.NonRetryable, w.letters()["child"].Reason)
	}},
	{"children/canceled", "a step fails if its child run is canceled", func(w *world) {
		run, id, _ := w.parent(Parent(), Single())
		w.drain(10)
		require.True(w.t, w.cancel(id).Wake.Submitted)
		w.drain(10)
		require.Equal(w.t, lifecycle.ClassChildCanceled, w.tasks(run)["child"].Class)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"children/skipped", "a step is skipped if its child run completes without an output", func(w *world) {
		child := Empty()
		run, _, p := w.parent(parentOf("parent", child, workflow.ChildSpec{}), child)
		w.drain(10)
		p.report(choose(p.claimStep("x"), "y"))
		w.drain(10)
		w.requireTasks(run, states{"child": "skipped", "after": "skipped"})
	}},
	{"children/cancel", "a child run is canceled with its parent, also before it begins, unless it is abandoned", func(w *world) {
		g, careless, child := Parent(), Careless(), Single()
		w.with(g, careless, child)
		p := w.pod()
		for _, begun := range []bool{false, true} {
			run := w.start(g)
			id := w.begins(p, run, child)
			if begun {
				w.drain(10)
				w.requireRun(id, lifecycle.Running)
			}
			require.True(w.t, w.cancel(run).Wake.Submitted)
			w.requireRun(run, lifecycle.Canceled)
			w.drain(10)
			w.requireRun(id, lifecycle.Canceled)
			require.NotEmpty(w.t, w.run(id).CancelReason)
			p.finish()
		}
		run := w.start(careless)
		id := w.begins(p, run, child)
		require.False(w.t, w.cancel(run).Wake.Submitted)
		w.drain(10)
		p.finish()
		w.requireRun(run, lifecycle.Canceled)
		w.requireRun(id, lifecycle.Completed)
		w.drain(10)
	}},
	{"children/cancel_running", "the running tasks of a child run get the grace of a cancel", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		w.drain(10)
		a := p.claimStep("a")
		w.cancel(run)
		out := w.drain(10)
		require.Equal(w.t, []workflow.RunID{id}, out.Wake.Canceling)
		require.False(w.t, out.Wake.NextTimer.IsZero())
		p.complete(a)
		w.requireRun(id, lifecycle.Completed)
		w.drain(10)
		w.requireRun(run, lifecycle.Canceled)
	}},
	{"children/fail_fast", "a child run is canceled when its step is, because another one failed", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		rest := p.claimAll()
		t := w.yields(rest["child"], child)
		p.report(t)
		require.True(w.t, p.fail(rest["side"]).Wake.Submitted)
		w.requireTasks(run, states{"child": "canceled"})
		w.drain(10)
		w.requireRun(t.Child.Run, lifecycle.Canceled)
	}},
	{"children/brief", "a child run that ends when it begins is told in the same call", func(w *world) {
		g, child := parentOf("parent", InputBranch(), workflow.ChildSpec{}), InputBranch()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		t := w.yields(p.claimAll()["child"], child)
		t.Child.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}, {Child: "no", Flags: lifecycle.FlagSkip}}
		p.report(t)
		require.Equal(w.t, []workflow.RunID{t.Child.Run}, w.drain(10).Wake.Ended)
		w.requireTasks(run, states{"child": "skipped", "after": "skipped"})
	}},
	{"children/repeated", "a report that is repeated or late begins no other run", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		w.start(g)
		p.complete(p.claimStep("make"))
		t := w.yields(p.claimAll()["child"], child)
		late := t
		late.Epoch--
		other := w.yields(persistence.Grant{Task: t.Task, Epoch: t.Epoch, Step: "child"}, child)
		w.requireRecorded(p.send(p.batch(late)), lifecycle.Stale)
		w.requireRecorded(p.send(p.batch(t, other)), lifecycle.Moved, lifecycle.AlreadyYours)
		w.requireRecorded(p.send(p.batch(other)), lifecycle.AlreadyYours)
		w.requireRecorded(p.send(p.batch(t)), lifecycle.AlreadyYours)
		w.requireGone(other.Child.Run)
		w.requireRun(t.Child.Run, lifecycle.Pending)
	}},
	{"children/stopping", "a run that is asked to stop begins no child run", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		rest := p.claimAll()
		w.cancel(run)
		t := w.yields(rest["child"], child)
		p.report(t, completion(rest["side"]))
		w.requireTasks(run, states{"child": "canceled"})
		w.requireRun(run, lifecycle.Canceled)
		w.requireGone(t.Child.Run)

		run = w.start(g)
		p.complete(p.claimStep("make"))
		rest = p.claimAll()
		w.cancel(run)
		t = w.yields(rest["child"], child)
		t.Child.Input = []byte(BadPayload)
		w.requireRecorded(p.send(p.batch(t)), lifecycle.Moved) // it is not stored
	}},
	{"children/refused", "a child run that cannot be stored fails its step, and nothing else", func(w *world) {
		g, child := Parent(), Single()
		w.with(g, child)
		p := w.pod()
		for _, change := range []func(*persistence.Transition){
			func(t *persistence.Transition) { t.Child = nil },
			func(t *persistence.Transition) { t.Child.Workflow = "other" },
			func(t *persistence.Transition) { t.Child.Definition = workflow.Hash{1} },
			func(t *persistence.Transition) { t.Child.Input = []byte(BadPayload) },
		} {
			run := w.start(g)
			p.complete(p.claimStep("make"))
			rest := p.claimAll()
			t := w.yields(rest["child"], child)
			id := t.Child.Run
			change(&t)
			out := p.send(p.batch(t, completion(rest["side"])))
			w.requireRecorded(out, lifecycle.BadRow, lifecycle.Moved)
			require.ErrorIs(w.t, out.Answers[0].Err, persistence.ErrBadRow)
			require.Equal(w.t, persistence.ClassBadRow, w.tasks(run)["child"].Class)
			w.requireGone(id)
		}
		run := w.start(g)
		first := p.claimStep("make")
		t := w.yields(first, child)
		require.Equal(w.t, lifecycle.BadRow, p.send(p.batch(t)).Answers[0].Result, "it is no step with a child run")
		w.requireGone(t.Child.Run)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"children/deep", "runs are nested up to a depth", func(w *world) {
		g := parentOf("self", Graph(workflow.Definition{Name: "self", Steps: []workflow.Step{{Name: "after"}}}), workflow.ChildSpec{})
		w.with(g)
		p := w.pod()
		run := w.start(g)
		for range lifecycle.DepthMax {
			next := w.begins(p, run, g)
			w.drain(10)
			run = next
		}
		p.complete(p.claimStep("make"))
		rest := p.claimAll()
		t := w.yields(rest["child"], g)
		p.report(completion(rest["side"]), t)
		require.Equal(w.t, lifecycle.ClassTooDeep, w.tasks(run)["child"].Class)
		w.requireGone(t.Child.Run)
		for range lifecycle.DepthMax {
			run = w.run(run).Parent.Run
			w.drain(10)
			require.Equal(w.t, lifecycle.ClassChildFailed, w.tasks(run)["child"].Class)
		}
		require.True(w.t, w.run(run).Parent.Run.IsZero())
		w.requireRun(run, lifecycle.Failed)
	}},
	{"children/fast", "the end of a child run is told whichever of its tasks ends last, and however", func(w *world) {
		for _, child := range []*workflow.Graph{Chain(4), Diamond(), Fan(5)} {
			run, _, p := w.parent(parentOf("parent-of-"+child.Name, child, workflow.ChildSpec{}), child)
			w.drain(10)
			for grants := p.claim(100); len(grants) > 0; grants = p.claim(100) {
				if out := p.send(p.inline(10, grants...)); len(out.Grants) > 0 {
					p.complete(out.Grants...)
				}
			}
			w.drain(10)
			p.finish()
			w.requireRun(run, lifecycle.Completed)
		}
	}},
	{"children/many", "child runs that end together are told together", func(w *world) {
		const n = 300
		child := Single()
		g := Many(n)
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		transitions := make([]persistence.Transition, 0, n)
		for _, grant := range p.claim(1000) {
			transitions = append(transitions, w.yields(grant, child))
		}
		require.Len(w.t, transitions, n)
		p.report(transitions...)
		for drained := w.drain(100); drained.More; drained = w.drain(100) {
			require.LessOrEqual(w.t, drained.Count, 100)
		}
		p.complete(p.claim(1000)...)
		for drained := w.drain(100); drained.More; drained = w.drain(100) {
			require.Zero(w.t, drained.Delivered)
			require.Positive(w.t, drained.Requests)
		}
		w.requireRun(run, lifecycle.Completed)
	}},
	{"children/cancel_many", "the child runs of a canceled parent are canceled in bounded batches", func(w *world) {
		const n = 300
		child := Single()
		g := Many(n)
		w.with(g, child)
		p := w.pod()
		run := w.start(g)
		p.complete(p.claimStep("make"))
		transitions := make([]persistence.Transition, 0, n)
		for _, grant := range p.claim(1000) {
			transitions = append(transitions, w.yields(grant, child))
		}
		p.report(transitions...)
		w.cancel(run)
		w.requireRun(run, lifecycle.Canceled)
		ended := 0
		for more := true; more; {
			out := w.drain(100)
			require.LessOrEqual(w.t, len(out.Wake.Ended), 100)
			ended, more = ended+len(out.Wake.Ended), out.More
		}
		require.Equal(w.t, n, ended)
	}},
}
