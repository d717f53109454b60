package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var branchRules = []rule{
	{"branch/taken", "the branch that a condition refuses is skipped to its end, the other one runs", func(w *world) {
		run, p := w.startWithPod(Branch())
		p.report(choose(p.claimStep("choose"), "no"))
		w.requireTasks(run, states{"choose": "completed", "yes": "queued", "more": "pending", "no": "skipped", "merge": "pending"})
		p.complete(p.claimStep("yes"))
		p.complete(p.claimStep("more"))
		merge := p.claimStep("merge")
		require.Equal(w.t, []persistence.Outcome{
			{Step: "more", Index: 2, State: lifecycle.Completed, Output: []byte(`"more"`), Size: 6},
			{Step: "no", Index: 3, State: lifecycle.Skipped},
		}, merge.Parents)
		p.complete(merge)
		w.requireRun(run, lifecycle.Completed)
		require.Equal(w.t, []string{"skipped"}, w.events(run)["no"])
	}},
	{"branch/short", "a merge of Maybe edges runs after the branch that was taken", func(w *world) {
		run, p := w.startWithPod(Branch())
		p.report(choose(p.claimStep("choose"), "yes"))
		w.requireTasks(run, states{"yes": "skipped", "more": "skipped", "no": "queued", "merge": "pending"})
		p.complete(p.claimStep("no"))
		p.complete(p.claimStep("merge"))
		w.requireRun(run, lifecycle.Completed)
		require.Equal(w.t, `"merge"`, string(w.run(run).Output))
	}},
	{"branch/both_skipped", "a step whose every parent was skipped is skipped", func(w *world) {
		run, p := w.startWithPod(Branch())
		require.Equal(w.t, []workflow.RunID{run}, p.report(choose(p.claimStep("choose"), "yes", "no")).Wake.Ended)
		w.requireTasks(run, states{"yes": "skipped", "more": "skipped", "no": "skipped", "merge": "skipped"})
		row := w.run(run)
		require.Equal(w.t, lifecycle.Completed, row.State)
		require.False(w.t, row.HasOutput)
	}},
	{"branch/deep_skip", "a skip cascades to any depth in the transaction that caused it", func(w *world) {
		const depth = 300
		d := workflow.Definition{Name: "deep", Output: depth, Steps: []workflow.Step{{Name: "s0"}}}
		for i := 1; i <= depth; i++ {
			step := workflow.Step{Name: "s" + itoa(i), Parents: plain(i - 1)}
			if i == 1 {
				step.Conditions = []workflow.Condition{{Kind: workflow.Then}}
			}
			d.Steps = append(d.Steps, step)
		}
		run, p := w.startWithPod(Graph(d))
		p.report(choose(p.claimStep("s0"), "s1"))
		w.requireRun(run, lifecycle.Completed)
		w.requireTasks(run, states{"s1": "skipped", "s150": "skipped", "s300": "skipped"})
	}},
	{"branch/skip_if", "a plain child of a skipped step is skipped, a Maybe child by its other parents, RunIfAllSkipped runs", func(w *world) {
		run, p := w.startWithPod(Skipping())
		p.report(choose(p.claimStep("choose"), "maybe"))
		w.requireTasks(run, states{"maybe": "skipped", "strict": "skipped", "last": "skipped", "always": "queued"})
		p.finish()
		w.requireRun(run, lifecycle.Completed)

		run = w.start(w.with(Skipping()))
		p = w.pod()
		p.finish()
		w.requireTasks(run, states{"maybe": "completed", "strict": "completed", "last": "completed", "always": "completed"})
	}},
	{"branch/condition_panics", "a condition that panics fails its child, not the step it looked at", func(w *world) {
		run, p := w.startWithPod(Branch())
		t := choose(p.claimStep("choose"), "no")
		t.Edges = append(t.Edges, persistence.EdgeResult{Child: "yes", Flags: lifecycle.FlagFail, Error: "nil pointer"})
		p.report(t)
		w.requireTasks(run, states{"choose": "completed", "yes": "failed", "more": "canceled", "no": "canceled", "merge": "canceled"})
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "nil pointer", w.run(run).Error)
		require.Equal(w.t, "yes", w.run(run).FailedStep)
	}},
	{"branch/slow_run", "a run that took a branch continues correctly with many transitions at once", func(w *world) {
		list := w.drafts(w.with(Branch()), tenantA, 40)
		w.trigger(list...)
		p := w.pod()
		var chosen []persistence.Transition
		for i, grant := range p.claim(100) {
			chosen = append(chosen, choose(grant, []string{"yes", "no"}[i%2]))
		}
		p.report(chosen...)
		w.checkInvariants()
		p.finish()
		for _, d := range list {
			w.requireRun(d.Run, lifecycle.Completed)
		}
	}},
	{"branch/unknown_child", "a result for a step that this version does not have is dropped", func(w *world) {
		run, p := w.startWithPod(Branch())
		p.report(choose(p.claimStep("choose"), "no", "added later"))
		w.requireTasks(run, states{"yes": "queued", "no": "skipped"})
	}},
}
