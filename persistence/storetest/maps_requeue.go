package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var mapRequeueRules = []rule{
	{"maps/requeue", "the run that continues a failed map executes the elements that did not complete", func(w *world) {
		for _, archived := range []bool{false, true} {
			run, p := w.mapping(MappedOn(), 5, 5, 0)
			grants := p.claimExactly(10, 5)
			p.complete(grants[0], grants[3])
			p.fail(grants[1])
			p.complete(grants[2])
			p.fail(grants[4])
			w.requireRun(run, lifecycle.Failed)
			if archived {
				w.archive(0)
			}
			answer := w.goOnFrom(run, "files")
			files := p.takeOver()["files"]
			require.Equal(w.t, run, files.KeyRun)
			w.requireElements(answer.Run, lifecycle.Completed, 0, lifecycle.Completed, lifecycle.Completed)
			p.report(spreads(files, 5, 1, 0))
			first := p.claimExactly(10, 1)[0]
			require.Equal(w.t, []any{"files[1]", `"item 1"`, run}, []any{first.Step, string(first.Item), first.KeyRun})
			_, counts := w.elements(answer.Run, persistence.ElementQuery{})
			require.Equal(w.t, persistence.MapRow{Items: 5, Left: 1, Open: 1}, counts)
			require.EqualValues(w.t, 3, counts.Completed())
			p.fail(first)
			w.requireRun(answer.Run, lifecycle.Failed)
			again := w.goOnFrom(answer.Run, "files")
			p.report(spreads(p.takeOver()["files"], 5, 5, 0))
			p.complete(p.claimExactly(10, 2)...)
			gather := p.claimStep("files")
			rows, _ := w.elements(again.Run, persistence.ElementQuery{Outputs: true})
			require.Len(w.t, rows, 5)
			for _, row := range rows {
				require.Equal(w.t, `"`+row.Name+`"`, string(row.Output))
			}
			p.complete(gather)
			p.finish()
			w.requireRun(again.Run, lifecycle.Completed)
		}
	}},
	{"maps/requeue_all", "a map of which every element completed and which failed itself gathers again", func(w *world) {
		_, p := w.mapping(MappedOn(), 3, 3, 0)
		p.complete(p.claimExactly(10, 3)...)
		p.fail(p.claimStep("files"))
		answer := w.goOn("files", persistence.RequeueOrder{})
		p.report(spreads(p.takeOver()["files"], 3, 3, 0))
		gather := p.claimStep("files")
		p.complete(gather)
		p.finish()
		w.requireRun(answer.Run, lifecycle.Completed)
	}},
	{"maps/requeue_made", "of a map that asked for tasks the elements are taken over, and not those tasks", func(w *world) {
		for _, archived := range []bool{false, true} {
			run, p := w.mapping(MappedOn(), 2, 2, 0)
			p.complete(p.claimExactly(10, 2)...)
			gather := completion(p.claimStep("files"))
			gather.Make = []persistence.DynamicTask{{Declared: "list", Name: "list#1"}, {Declared: "list", Name: "list#2"}}
			p.report(gather)
			rest := p.claimAll()
			p.complete(rest["sum"], rest["list#2"])
			p.fail(rest["list#1"])
			w.requireRun(run, lifecycle.Failed)
			if archived {
				w.archive(0)
			}
			rows, _ := w.elements(run, persistence.ElementQuery{})
			require.Len(w.t, rows, 2)
			answer := w.goOnFrom(run, "list#1")
			w.requireElements(answer.Run, lifecycle.Completed, lifecycle.Completed)
			p.report(spreads(p.takeOver()["files"], 2, 2, 0))
			p.complete(p.claimStep("files"))
			p.finish()
			w.requireRun(answer.Run, lifecycle.Completed)
		}
	}},
	{"maps/requeue_kept", "a map that completed, with failures that it allows, is taken over as any step", func(w *world) {
		_, p := w.mapping(MappedOn(), 3, 3, 3)
		grants := p.claimExactly(10, 3)
		p.fail(grants[0])
		p.complete(grants[1], grants[2])
		p.complete(p.claimStep("files"))
		p.fail(p.claimStep("sum"))
		answer := w.goOn("sum", persistence.RequeueOrder{})
		require.Equal(w.t, 3, answer.Kept)
		rest := p.takeOver()
		require.Len(w.t, rest, 1)
		require.Equal(w.t, `"files"`, string(rest["sum"].Parents[0].Output))
		rows, _ := w.elements(answer.Run, persistence.ElementQuery{})
		require.Empty(w.t, rows)
	}},
	{"maps/requeue_changed", "elements are not taken over where the list may be another", func(w *world) {
		g := Graph(workflow.Definition{Name: "relisted", Output: 2, Policy: workflow.FinishSiblings, Steps: []workflow.Step{
			{Name: "may"}, {Name: "list", Parents: settled(0)}, {Name: "files", Kind: workflow.Map, Parents: plain(1)},
		}})
		_, p := w.startWithPod(g)
		p.fail(p.claimStep("may"))
		p.complete(p.claimStep("list"))
		p.report(spreads(p.claimStep("files"), 2, 2, 0))
		grants := p.claimExactly(10, 2)
		p.complete(grants[0])
		p.fail(grants[1])
		answer := w.goOn("may", persistence.RequeueOrder{})
		require.Zero(w.t, answer.Kept)
		p.complete(p.claimStep("may"))
		p.complete(p.claimStep("list"))
		p.report(spreads(p.claimStep("files"), 2, 2, 0))
		p.claimExactly(10, 2)
	}},
	{"maps/large", "a page of elements with outputs is bounded in bytes", func(w *world) {
		run, p := w.mapping(Mapped(), 3, 3, 0)
		for _, g := range p.claimExactly(10, 3) {
			t := completion(g)
			t.Output = make([]byte, persistence.ElementsMax*2/3)
			for i := range t.Output {
				t.Output[i] = byte('0' + i%10)
			}
			p.report(t)
		}
		page := call(w.store.Elements(w.ctx, "", workflow.TaskID{Run: run, Step: 1}, persistence.ElementQuery{Outputs: true})).must(w)
		require.Len(w.t, page.Rows, 2)
		require.NotZero(w.t, page.Next)
		rows, _ := w.elements(run, persistence.ElementQuery{Outputs: true})
		require.Len(w.t, rows, 3)
		_, err := w.store.Elements(w.ctx, tenantB, workflow.TaskID{Run: run, Step: 1}, persistence.ElementQuery{})
		require.ErrorIs(w.t, err, persistence.ErrRunNotFound)
	}},
	{"maps/situation", "of a map that waits a situation tells how its elements stand, and of these that they are some", func(w *world) {
		run, p := w.mapping(MappedOn(), 9, 3, 1)
		grants := p.claimExactly(2, 2)
		p.fail(grants[0])
		found := call(w.store.Situation(w.ctx, tenantA, run)).must(w)
		got := map[string]explain.Task{}
		for _, t := range found.Tasks {
			got[t.Name] = t
		}
		require.Len(w.t, got, 5)
		require.Equal(w.t, explain.MapState{Items: 9, Left: 5, Open: 3, Running: 1, Failed: 1}, got["files"].Map)
		require.False(w.t, got["files"].Since.IsZero())
		require.Empty(w.t, got["files"].Signal)
		require.Zero(w.t, got["files"].Element)
		require.EqualValues(w.t, 1, got["files[1]"].Element)
		require.Zero(w.t, got["files[2]"].Map)
		require.True(w.t, got["files[3]"].Ready)
		p.fail(grants[1])
		for range 2 {
			end := call(w.store.Situation(w.ctx, tenantA, run)).must(w).End
			require.Len(w.t, end.Failed, 1, "its elements are not told")
			require.Equal(w.t, []any{"files", lifecycle.ClassElementFailed}, []any{end.Failed[0].Name, end.Failed[0].Class})
			w.archive(0)
		}
	}},
}

// goOnFrom requeues the letter of a step of a run, and expands the new run.
func (w *world) goOnFrom(run workflow.RunID, step string) persistence.RequeueAnswer {
	w.t.Helper()
	order := persistence.RequeueOrder{Run: w.runID()}
	for _, l := range call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{})).must(w) {
		if l.Task.Run == run && l.Step == step {
			order.Letter = l.Task
		}
	}
	answer := w.requeue(order)
	require.Equal(w.t, persistence.RequeueStored, answer.Result)
	require.Equal(w.t, 1, w.drain(10).Count)
	return answer
}
