package storetest

import (
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Mapping is list → each (a map) → sum, with a second map that waits in another queue, and not for
// long, and conditions that look at what both give.
func Mapping() *workflow.Graph {
	return Graph(workflow.Definition{Name: "mapping", Output: 3, Policy: workflow.FinishSiblings, Steps: []workflow.Step{
		{Name: "list"},
		{Name: "each", Kind: workflow.Map, Parents: plain(0)},
		{
			Name: "late", Kind: workflow.Map, Parents: settled(1),
			Options: workflow.Options{Queue: "other", ScheduleToStart: long},
		},
		{Name: "sum", Parents: settled(1, 2)},
	}})
}

// mapGraphs are the workflows whose steps begin elements.
func mapGraphs() []*workflow.Graph { return []*workflow.Graph{Mapped(), MappedOn(), Mapping()} }

// widen lets elements get further, and looks at them. Now and then a run is canceled meanwhile, or
// one that failed is continued.
func (w *differ) widen() {
	w.forward()
	switch w.IntN(8) {
	case 0, 1:
		w.read()
	case 2:
		w.cancel()
		w.compareStates()
	case 3, 4:
		w.requeue()
		w.compareStates()
	}
	w.drain()
}

// spreading reports whether a task may begin elements.
func spreading(h held) bool {
	return h.task.Traits.Has(workflow.TraitMap) && !h.task.IsElement() && h.task.Flags&(lifecycle.FlagSpread|lifecycle.FlagKept) == 0
}

// spread lets the elements of a map begin, now and then what a store refuses; or the map has an
// empty list and completes. The list is what the first step gave: a run that continues another and
// takes over elements of it has the same.
func (w *differ) spread(r *sent, h held) {
	if w.chance(8) {
		return
	}
	n := 1
	for _, digit := range h.run.Tasks[0].Output {
		n += int(digit) % 6
	}
	n = min(n, 6)
	begin := &persistence.Map{Window: 1 + int32(w.IntN(4)), Allowed: int32(w.IntN(n + 1))}
	for i := range n {
		begin.Items = append(begin.Items, fmt.Appendf(nil, "%d of %d", i, w.count))
	}
	if w.chance(2) {
		begin.Allowed = 0
	}
	r.Report, r.Output, r.Progress, r.Map, r.spoiled = lifecycle.Yielded, nil, nil, begin, true
	switch w.IntN(32) {
	case 0:
		r.Map = nil
	case 1:
		begin.Items = nil
	case 2:
		begin.Window = anyOf(w, []int32{-1, 0, lifecycle.MapWindowMax + 1})
	case 3:
		begin.Items[n-1] = []byte(BadPayload)
	case 4:
		begin.Allowed = anyOf(w, []int32{-1, int32(n) + 1})
	default:
		r.spoiled = false
	}
}

// sawSpread counts what became of the elements that a report would let begin.
func (w *differ) sawSpread(r sent) {
	page, err := w.model.Store.Elements(w.ctx, "", r.Task, persistence.ElementQuery{})
	if err != nil || page.Map.Items == 0 {
		w.saw("child run or elements taken back")
		return
	}
	w.saw("elements begun")
}

// elements compares pages of the elements of a run.
func (w *differ) elements(tenant string, r *snapshot.Run) {
	for i := range r.Graph.Nodes {
		if r.Graph.Nodes[i].Kind != workflow.Map && !w.chance(20) {
			continue
		}
		query := persistence.ElementQuery{Limit: anyOf(w, []int{0, 1, 2, 5}), Outputs: w.chance(2)}
		if w.chance(3) {
			query.States = anyOf(w, [][]lifecycle.State{{lifecycle.Failed}, {lifecycle.Completed}, {lifecycle.Queued, lifecycle.Running}})
		}
		if w.chance(3) {
			query.After = int32(len(r.Graph.Nodes) + w.IntN(6))
		}
		of := workflow.TaskID{Run: r.ID, Step: int32(i)}
		out := both(w, fmt.Sprintf("elements of %v of %q: %+v", of, tenant, query), func(s *side) (persistence.ElementPage, error) {
			page, err := s.Store.Elements(w.ctx, tenant, of, query)
			for i := range page.Rows {
				page.Rows[i] = s.taskSeen(page.Rows[i])
			}
			return page, err
		})
		for _, row := range out.Value.Rows {
			w.saw("element read")
			if row.State == lifecycle.Canceled {
				w.saw("element canceled")
			}
		}
		if out.Value.Next > 0 {
			w.saw("more elements to read")
		}
		if t := r.Task(int32(i)); t != nil && t.Class == lifecycle.ClassElementFailed {
			w.saw("map failed with its elements")
		}
		if t := r.Task(int32(i)); t != nil && t.Flags.Has(lifecycle.FlagSpread) && t.State == lifecycle.Completed {
			w.saw("map gathered")
		}
	}
}

// sawTakenOver counts the elements that a run has taken over which has not begun.
func (w *differ) sawTakenOver(run workflow.RunID) {
	for step := range int32(3) {
		page, err := w.model.Store.Elements(w.ctx, "", workflow.TaskID{Run: run, Step: step}, persistence.ElementQuery{})
		if err == nil {
			w.sawAll(len(page.Rows), "element taken over")
		}
	}
}
