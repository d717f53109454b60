package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Mapped is list → files (a map) → sum, and beside it list → side.
func Mapped() *workflow.Graph { return mapped("mapped", workflow.FailFast) }

// MappedOn is Mapped of which a failure stops nothing but what comes after it.
func MappedOn() *workflow.Graph { return mapped("mappedon", workflow.FinishSiblings) }

func mapped(name string, policy workflow.FailurePolicy) *workflow.Graph {
	return Graph(workflow.Definition{Name: name, Output: 2, Policy: policy, Steps: []workflow.Step{
		{Name: "list"},
		{Name: "files", Kind: workflow.Map, Parents: plain(0)},
		{Name: "sum", Parents: plain(1)},
		{Name: "side", Parents: plain(0)},
	}})
}

// items returns so many items of a map.
func items(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = fmt.Appendf(nil, `"item %d"`, i)
	}
	return list
}

// spreads is the report of a map that begins n elements.
func spreads(g persistence.Grant, n int, window, allowed int32) persistence.Transition {
	return persistence.Transition{
		Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Yielded, Map: &persistence.Map{Items: items(n), Window: window, Allowed: allowed},
	}
}

// mapping starts a run of a graph with a map and begins its elements.
func (w *world) mapping(g *workflow.Graph, n int, window, allowed int32) (workflow.RunID, *worker) {
	w.t.Helper()
	run, p := w.startWithPod(g)
	w.spread(p, n, window, allowed)
	return run, p
}

// spread executes what comes before a map, and begins its elements.
func (w *world) spread(p *worker, n int, window, allowed int32) {
	w.t.Helper()
	p.complete(p.claimStep("list"))
	rest := p.claimAll()
	p.complete(rest["side"])
	p.report(spreads(rest["files"], n, window, allowed))
}

// elements returns the elements of the map of a run, by page.
func (w *world) elements(run workflow.RunID, query persistence.ElementQuery) (rows []persistence.TaskRow, counts persistence.MapRow) {
	w.t.Helper()
	for {
		page := call(w.store.Elements(w.ctx, "", workflow.TaskID{Run: run, Step: 1}, query)).must(w)
		rows, counts = append(rows, page.Rows...), page.Map
		if query.After = page.Next; page.Next == 0 {
			return rows, counts
		}
		require.NotEmpty(w.t, page.Rows)
	}
}

// requireElements requires the states of the elements of a run, by item.
func (w *world) requireElements(run workflow.RunID, want ...lifecycle.State) {
	w.t.Helper()
	rows, _ := w.elements(run, persistence.ElementQuery{})
	got := make([]lifecycle.State, len(want))
	for _, row := range rows {
		item := lifecycle.ElementOf(row.Name)
		require.Less(w.t, int(item), len(got), row.Name)
		got[item] = row.State
	}
	require.Equal(w.t, want, got)
}

var mapRules = []rule{
	{"maps/completed", "a map executes its function for each item, so many at once, and gathers what they gave", func(w *world) {
		run, p := w.mapping(Mapped(), 5, 2, 0)
		w.requireTasks(run, states{"files": "waiting", "sum": "pending"})
		grants := p.claimExactly(10, 2)
		for i, g := range grants {
			require.Equal(w.t, []any{fmt.Sprintf("files[%d]", i), "files", fmt.Sprintf(`"item %d"`, i), int32(1)},
				[]any{g.Step, g.Declared, string(g.Item), g.Attempt})
			require.Empty(w.t, g.Parents)
			require.Equal(w.t, p.handlers[1], g.Handler)
		}
		_, counts := w.elements(run, persistence.ElementQuery{})
		require.Equal(w.t, persistence.MapRow{Items: 5, Left: 3, Open: 2}, counts)
		out := p.complete(grants[1])
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		next := p.claimExactly(10, 1)
		require.Equal(w.t, "files[2]", next[0].Step)
		p.complete(next[0], grants[0])
		last := p.claimExactly(10, 2)
		p.complete(last[0])
		require.Empty(w.t, p.claim(10))
		p.complete(last[1])
		gather := p.claimStep("files")
		require.Empty(w.t, gather.Item)
		require.False(w.t, gather.Kept)
		require.EqualValues(w.t, 1, gather.Attempt)
		require.Len(w.t, gather.Parents, 1)
		rows, counts := w.elements(run, persistence.ElementQuery{Outputs: true, Limit: 2})
		require.Len(w.t, rows, 5)
		for i, row := range rows {
			require.Equal(w.t, fmt.Sprintf(`"files[%d]"`, i), string(row.Output))
		}
		require.Equal(w.t, persistence.MapRow{Items: 5}, counts)
		p.complete(gather)
		sum := p.claimStep("sum")
		require.Equal(w.t, `"files"`, string(sum.Parents[0].Output))
		p.complete(sum)
		w.requireRun(run, lifecycle.Completed)
		events := w.events(run)
		require.Equal(w.t, []string{"queued", "started", "waiting", "queued", "started", "completed"}, events["files"])
		require.Equal(w.t, []string{"queued", "started", "completed"}, events["files[4]"])
		require.Len(w.t, w.tasks(run), 4, "elements are read by page")
		require.Equal(w.t, persistence.MapRow{Items: 5}, w.tasks(run)["files"].Map)
		before := w.everything([]workflow.RunID{run})
		w.archive(0)
		require.Equal(w.t, before, w.everything([]workflow.RunID{run}))
		again, counts := w.elements(run, persistence.ElementQuery{Outputs: true})
		require.Equal(w.t, rows, again)
		require.Equal(w.t, persistence.MapRow{Items: 5}, counts)
		head := call(w.store.Payload(w.ctx, "", run, "files[3]", 100)).must(w)
		require.Equal(w.t, `"files[3]"`, string(head.Data))
	}},
	{"maps/lane", "elements stand behind what continues", func(w *world) {
		g, other := Mapped(), Chain(2)
		w.with(g, other)
		p := w.pod()
		run := w.start(g)
		w.start(other)
		grants := p.claimExactly(10, 2)
		at := slices.IndexFunc(grants, func(g persistence.Grant) bool { return g.Task.Run == run })
		p.complete(grants[at])
		rest := p.claimAll()
		p.report(spreads(rest["files"], 5, 5, 0))
		p.complete(grants[1-at], rest["side"])
		require.Equal(w.t, "s1", p.claimExactly(1, 1)[0].Step)
		require.Equal(w.t, "files[0]", p.claimExactly(1, 1)[0].Step)
	}},
	{"maps/failed", "a map that allows no failure fails with its first one, and begins no more", func(w *world) {
		run, p := w.mapping(MappedOn(), 9, 3, 0)
		grants := p.claimExactly(2, 2)
		p.fail(grants[0])
		w.requireTasks(run, states{"files": "waiting"})
		w.requireElements(run, lifecycle.Failed, lifecycle.Running, lifecycle.Canceled)
		require.Empty(w.t, p.claim(10))
		p.complete(grants[1])
		row := w.tasks(run)["files"]
		require.Equal(w.t, []any{lifecycle.Failed, lifecycle.ClassElementFailed, "element 0 of 9 failed: files[0] broke", int32(1)},
			[]any{row.State, row.Class, row.Error, row.Attempt})
		require.Equal(w.t, persistence.MapRow{Items: 9, Left: 6, Failed: 2}, row.Map)
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "files", w.run(run).FailedStep)
		require.Len(w.t, w.letters(), 1, "an element leaves none")
		require.Equal(w.t, lifecycle.NonRetryable, w.letters()["files"].Reason)
		before := w.everything([]workflow.RunID{run})
		w.archive(0)
		require.Equal(w.t, before, w.everything([]workflow.RunID{run}))
		require.Equal(w.t, row.Map, w.tasks(run)["files"].Map)
		w.requireElements(run, lifecycle.Failed, lifecycle.Completed, lifecycle.Canceled)
	}},
	{"maps/tolerated", "a map that allows failures completes with them, and they leave no dead letters", func(w *world) {
		run, p := w.mapping(Mapped(), 4, 4, 2)
		grants := p.claimExactly(10, 4)
		p.fail(grants[0])
		p.complete(grants[1], grants[2])
		out := p.fail(grants[3])
		require.Empty(w.t, out.Wake.Failed)
		_, counts := w.elements(run, persistence.ElementQuery{})
		require.EqualValues(w.t, 2, counts.Completed())
		failed, _ := w.elements(run, persistence.ElementQuery{States: []lifecycle.State{lifecycle.Failed}})
		require.Len(w.t, failed, 2)
		require.Equal(w.t, []any{"files[3]", "test", "files[3] broke"}, []any{failed[1].Name, failed[1].Class, failed[1].Error})
		p.finish()
		w.requireRun(run, lifecycle.Completed)
		require.Empty(w.t, w.letters())
	}},
	{"maps/exceeded", "one failure more than a map allows fails it", func(w *world) {
		run, p := w.mapping(Mapped(), 6, 3, 1)
		grants := p.claimExactly(10, 3)
		p.fail(grants[0])
		fourth := p.claimExactly(10, 1)[0]
		p.report(failure(grants[1]), completion(grants[2]))
		p.complete(fourth)
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "2 of 6 elements failed, where 1 may: the last is element 1: files[1] broke", w.tasks(run)["files"].Error)
		w.requireTasks(run, states{"sum": "canceled"})
	}},
	{"maps/retried", "an element is retried by itself; not once its map fails", func(w *world) {
		run, p := w.mapping(Mapped(), 3, 3, 0)
		grants := p.claimExactly(10, 3)
		p.report(retry(grants[0], time.Minute))
		w.requireElements(run, lifecycle.Backoff, lifecycle.Running, lifecycle.Running)
		w.advance(2 * time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		p.renew(grants[1:]...)
		again := p.claimExactly(10, 1)[0]
		require.EqualValues(w.t, 2, again.Attempt)
		require.Equal(w.t, `"item 0"`, string(again.Item))
		p.report(retry(again, time.Minute))
		p.fail(grants[1])
		w.requireElements(run, lifecycle.Canceled, lifecycle.Failed, lifecycle.Running)
		p.report(retry(grants[2], time.Minute))
		w.requireElements(run, lifecycle.Canceled, lifecycle.Failed, lifecycle.Failed)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"maps/lost", "elements and maps that are lost with their pod are executed again", func(w *world) {
		run, p := w.mapping(Mapped(), 2, 2, 0)
		p.claimExactly(10, 2)
		w.advance(2 * leaseTTL)
		w.expire()
		q := w.pod()
		q.complete(q.claimExactly(10, 2)...)
		q.claimStep("files")
		w.advance(2 * leaseTTL)
		w.expire()
		r := w.pod()
		gather := r.claimStep("files")
		require.EqualValues(w.t, 1, gather.Lost)
		r.complete(gather)
		r.finish()
		w.requireRun(run, lifecycle.Completed)
	}},
	{"maps/lost_breaking", "an element that is lost or handed back while its map fails is not executed again", func(w *world) {
		run, p := w.mapping(Mapped(), 3, 3, 0)
		grants := p.claimExactly(10, 3)
		p.fail(grants[0])
		p.report(persistence.Transition{Task: grants[1].Task, Epoch: grants[1].Epoch, Report: lifecycle.Released})
		w.requireElements(run, lifecycle.Failed, lifecycle.Canceled, lifecycle.Running)
		w.advance(2 * leaseTTL)
		w.expire()
		w.requireElements(run, lifecycle.Failed, lifecycle.Canceled, lifecycle.Canceled)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"maps/canceled", "a cancel ends a map and its elements, and begins no more", func(w *world) {
		run, p := w.mapping(Mapped(), 9, 2, 0)
		running := p.claimExactly(1, 1)[0]
		w.cancel(run)
		w.requireTasks(run, states{"files": "canceled", "sum": "canceled"})
		w.requireElements(run, lifecycle.Running, lifecycle.Canceled)
		p.complete(running)
		w.requireRun(run, lifecycle.Canceled)
		w.requireElements(run, lifecycle.Completed, lifecycle.Canceled)
	}},
	{"maps/fail_fast", "a failure elsewhere ends a map and its elements, and begins no more", func(w *world) {
		run, p := w.startWithPod(Mapped())
		p.complete(p.claimStep("list"))
		rest := p.claimAll()
		p.report(spreads(rest["files"], 9, 2, 0))
		running := p.claimExactly(1, 1)[0]
		p.fail(rest["side"])
		w.requireTasks(run, states{"files": "canceled", "sum": "canceled"})
		w.requireElements(run, lifecycle.Running, lifecycle.Canceled)
		p.report(retry(running, time.Minute))
		w.requireRun(run, lifecycle.Failed)
	}},
	{"maps/stopping", "a map of a run that stops begins no elements", func(w *world) {
		run, p := w.startWithPod(Mapped())
		p.complete(p.claimStep("list"))
		rest := p.claimAll()
		p.complete(rest["side"])
		w.cancel(run)
		p.report(spreads(rest["files"], 9, 2, 0))
		w.requireRun(run, lifecycle.Canceled)
		rows, counts := w.elements(run, persistence.ElementQuery{})
		require.Empty(w.t, rows)
		require.Zero(w.t, counts)
	}},
	{"maps/repeated", "a report that is repeated begins no other elements, and a map begins them once", func(w *world) {
		run, p := w.startWithPod(Mapped())
		p.complete(p.claimStep("list"))
		rest := p.claimAll()
		p.complete(rest["side"])
		begin := spreads(rest["files"], 3, 2, 0)
		p.report(begin)
		w.requireRecorded(p.send(p.batch(begin)), lifecycle.AlreadyYours)
		w.requireElements(run, lifecycle.Queued, lifecycle.Queued)
		late := begin
		late.Epoch--
		w.requireRecorded(p.send(p.batch(late)), lifecycle.Stale)
		element := p.claimExactly(1, 1)[0]
		p.complete(element)
		w.requireRecorded(p.send(p.batch(completion(element))), lifecycle.AlreadyYours)
		w.requireElements(run, lifecycle.Completed, lifecycle.Queued, lifecycle.Queued)
		p.complete(p.claimExactly(10, 2)...)
		w.requireRecorded(p.send(p.batch(spreads(p.claimStep("files"), 3, 2, 0))), lifecycle.Illegal)
	}},
	{"maps/refused", "elements that cannot be stored fail their map, and nothing else", func(w *world) {
		g := w.with(MappedOn())
		p := w.pod()
		for name, change := range map[string]func(*persistence.Transition){
			"no items":    func(t *persistence.Transition) { t.Map.Items = nil },
			"no window":   func(t *persistence.Transition) { t.Map.Window = 0 },
			"wide window": func(t *persistence.Transition) { t.Map.Window = lifecycle.MapWindowMax + 1 },
			"allowed":     func(t *persistence.Transition) { t.Map.Allowed = 3 },
			"nothing":     func(t *persistence.Transition) { t.Map = nil },
			"bad item":    func(t *persistence.Transition) { t.Map.Items[1] = []byte(BadPayload) },
			"large":       func(t *persistence.Transition) { t.Map.Items[1] = make([]byte, persistence.MapItemsMax) },
		} {
			run := w.start(g)
			p.complete(p.claimStep("list"))
			rest := p.claimAll()
			begin := spreads(rest["files"], 2, 2, 0)
			change(&begin)
			out := p.send(p.batch(begin, completion(rest["side"])))
			w.requireRecorded(out, lifecycle.BadRow, lifecycle.Moved)
			require.Error(w.t, out.Answers[0].Err, name)
			require.Equal(w.t, persistence.ClassBadRow, w.tasks(run)["files"].Class, name)
			w.requireRun(run, lifecycle.Failed)
		}
		run := w.start(g)
		list := p.claimStep("list")
		out := p.send(p.batch(spreads(list, 2, 2, 0)))
		w.requireRecorded(out, lifecycle.BadRow)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"maps/handler", "a failure handler hears of the map, not of its elements", func(w *world) {
		g := Graph(workflow.Definition{
			Name: "rescued", Output: 1, Policy: workflow.FinishSiblings, OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
			Steps: []workflow.Step{{Name: "list"}, {Name: "files", Kind: workflow.Map, Parents: plain(0)}},
		})
		run, p := w.startWithPod(g)
		p.complete(p.claimStep("list"))
		p.report(spreads(p.claimStep("files"), 2, 2, 0))
		p.fail(p.claimExactly(1, 1)[0])
		rescue := p.claimStep("rescue")
		require.Len(w.t, rescue.Failed, 1)
		require.Equal(w.t, "files", rescue.Failed[0].Step)
		p.complete(rescue)
		w.requireRun(run, lifecycle.Failed)
	}},
	{"maps/older_pods", "a run with a map waits for living pods that do not know maps to leave", func(w *world) {
		g := w.with(Mapped())
		pod, _, err := w.store.JoinPod(w.ctx, persistence.PodInfo{Name: "old", Queues: []string{defaultQueue}, Slots: 1, TTL: leaseTTL, Protocol: 4})
		require.NoError(w.t, err)
		d := w.draft(g)
		w.requireTriggers(w.ask(d), persistence.Triggered)
		require.Zero(w.t, w.drain(10).Count)
		call(w.store.LeavePod(w.ctx, pod)).must(w)
		require.Equal(w.t, 1, w.drain(10).Count)
		w.requireTasks(d.Run, states{"list": "queued", "files": "pending"})
	}},
}
