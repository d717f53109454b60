package storetest

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// wideGraphs are workflows with maps.
func wideGraphs() []*workflow.Graph {
	return []*workflow.Graph{Mapped(), MappedOn(), Graph(workflow.Definition{
		Name: "watched", Output: 3, Policy: workflow.FailFast, Steps: []workflow.Step{
			{Name: "list"},
			{Name: "first", Kind: workflow.Map, Parents: plain(0), Options: workflow.Options{ScheduleToStart: short}},
			{Name: "second", Kind: workflow.Map, Parents: []workflow.Edge{{Parent: 0, Kind: workflow.Settled}}},
			{Name: "join", Parents: []workflow.Edge{{Parent: 1, Kind: workflow.Settled}, {Parent: 2, Kind: workflow.Settled}}},
		},
		OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})}
}

// widen lets maps get further.
func (w *differ) widen() {
	w.forward()
	if w.chance(4) {
		w.requeue()
		w.compareStates()
	}
	switch {
	case w.chance(10):
		w.cancel()
		w.compareStates()
	case w.chance(5):
		if at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return len(r.Maps) > 0 && !w.chance(3) }); at >= 0 {
			w.elements(w.state.Runs[at].Tenant, &w.state.Runs[at])
		}
	}
	w.drain()
}

// mapIs selects runs with a map in a state.
func mapIs(state lifecycle.State) func(r snapshot.Run) bool {
	return func(r snapshot.Run) bool {
		return slices.ContainsFunc(r.Tasks, func(t snapshot.Task) bool {
			return t.State == state && t.Traits.Has(workflow.TraitMap) && !t.IsElement() && (state != lifecycle.Running || !t.Flags.Has(lifecycle.FlagSpread))
		})
	}
}

// turn has more of some attempts of maps end in another way: what gathers fails, so that a run which
// continues takes over all elements, and what runs while its map breaks does not get to its own end.
func (w *differ) turn(r *sent, h held) {
	switch owner := w.ownerOf(h); {
	case owner == nil && h.task.Traits.Has(workflow.TraitMap) && h.task.Flags.Has(lifecycle.FlagSpread) && w.chance(2):
		r.Report, r.Class, r.Error, r.Output, r.Retry, r.TimedOut = lifecycle.Errored, "test", "it broke", nil, false, ""
	case owner != nil && owner.Class == lifecycle.ClassElementFailed && w.chance(2):
		*r = sent{pod: r.pod, Transition: persistence.Transition{
			Task: r.Task, Epoch: r.Epoch, Report: anyOf(w, []lifecycle.ReportKind{lifecycle.Lost, lifecycle.Released}),
		}}
	}
}

// stopBefore cancels a run, now and then, of which a batch would begin a map.
func (w *differ) stopBefore(batch []sent) {
	for i := range batch {
		if batch[i].Map != nil && w.chance(16) {
			w.ask(persistence.Cancel{Run: batch[i].Task.Run, Reason: "enough", Grace: short}, true)
			w.compareStates()
		}
	}
}

// ownerOf returns the map of an element; nil: the task is none.
func (w *differ) ownerOf(h held) *snapshot.Task {
	if !h.task.IsElement() {
		return nil
	}
	return h.run.Task(h.task.Dynamic.Owner)
}

// spreadsOut reports whether a task has to begin the elements of a map.
func spreadsOut(h held) bool {
	return h.task.Traits.Has(workflow.TraitMap) && !h.task.IsElement() && h.task.Flags&(lifecycle.FlagSpread|lifecycle.FlagKept) == 0
}

// spreadOut begins the elements of a map, now and then as a store refuses it.
func (w *differ) spreadOut(r *sent, h held) {
	n := w.listed(h)
	m := &persistence.Map{Window: 1 + int32(w.IntN(4)), Allowed: anyOf(w, []int32{0, 0, int32(w.IntN(n + 1)), int32(n)})}
	for i := range n {
		m.Items = append(m.Items, fmt.Appendf(nil, "%d.%d", w.count, i))
	}
	r.Report, r.Output, r.Map, r.spoiled = lifecycle.Yielded, nil, m, true
	switch w.IntN(32) {
	case 0:
		r.Map = nil
	case 1:
		m.Window = anyOf(w, []int32{0, lifecycle.MapWindowMax + 1})
	case 2:
		m.Allowed = anyOf(w, []int32{-1, int32(n) + 1})
	case 3:
		m.Items[w.IntN(n)] = []byte(BadPayload)
	case 4:
		m.Items = nil
	default:
		r.spoiled = false
	}
}

// listed is how many items the list of a map has: that follows from the output that gives it, so that
// the list of a run that continues another is the same.
func (w *differ) listed(h held) int {
	n := 1
	for _, digit := range h.run.Task(h.run.Graph.Nodes[h.task.Step].Parents[0]).Output {
		n += int(digit) % 6
	}
	return min(n, 7)
}

// sawSpread counts what became of a report that would begin elements.
func (w *differ) sawSpread(r sent) {
	page, err := w.model.Store.Elements(w.ctx, "", r.Task, persistence.ElementQuery{})
	if err != nil || page.Map.Items == 0 {
		w.saw("map not begun in a run that stops")
		return
	}
	w.saw("map begun")
}

// sawMaps counts what maps have done between two states.
func (w *differ) sawMaps(before, after *snapshot.Tables) {
	for i := range after.Runs {
		r := &after.Runs[i]
		if !r.Graph.HasMaps() {
			continue
		}
		at := slices.IndexFunc(before.Runs, func(old snapshot.Run) bool { return old.ID == r.ID })
		if at < 0 {
			for j := range r.Tasks {
				if r.Tasks[j].IsElement() {
					w.saw("element taken over")
				}
			}
			continue
		}
		for j := range r.Maps {
			w.sawMap(&before.Runs[at], r, &r.Maps[j])
		}
		w.sawElements(&before.Runs[at], r)
	}
}

func (w *differ) sawMap(before, after *snapshot.Run, m *lifecycle.Map) {
	old, t := before.Task(m.Step), after.Task(m.Step)
	at := slices.IndexFunc(before.Maps, func(o lifecycle.Map) bool { return o.Step == m.Step })
	if at >= 0 && before.Maps[at].Left > m.Left {
		w.saw("window moved")
	}
	switch {
	case old.State == t.State:
	case t.State == lifecycle.Queued && old.State == lifecycle.Running && at < 0:
		w.saw("map that takes over all elements")
	case old.State != lifecycle.Waiting:
	case t.State == lifecycle.Queued && m.Failed > 0:
		w.saw("map gathers, some elements failed")
	case t.State == lifecycle.Queued:
		w.saw("map gathers")
	case t.State == lifecycle.Failed:
		w.saw("map broke")
	case t.State == lifecycle.Canceled:
		w.saw("map canceled")
	}
}

func (w *differ) sawElements(before, after *snapshot.Run) {
	for i := range after.Tasks {
		t := &after.Tasks[i]
		if !t.IsElement() || t.State != lifecycle.Canceled {
			continue
		}
		owner := after.Task(t.Dynamic.Owner)
		switch old := before.Task(t.Step); {
		case old == nil || old.State.Terminal():
		case owner.Class == lifecycle.ClassElementFailed && old.State == lifecycle.Running:
			w.saw("element ended with a map that breaks")
		case owner.Class == lifecycle.ClassElementFailed:
			w.saw("element taken back")
		}
	}
}

// sawMapRequeued counts the dead letters of maps that were requeued.
func (w *differ) sawMapRequeued(letter workflow.TaskID) {
	at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == letter.Run })
	if at >= 0 && w.state.Runs[at].Task(letter.Step).Traits.Has(workflow.TraitMap) {
		w.saw("dead letter of a map requeued")
	}
}

// elements compares what readers see of the elements of a map.
func (w *differ) elements(tenant string, r *snapshot.Run) {
	for i := range r.Graph.Nodes {
		if r.Graph.Nodes[i].Kind != workflow.Map {
			continue
		}
		of := workflow.TaskID{Run: r.ID, Step: int32(i)}
		query := persistence.ElementQuery{Outputs: w.chance(2), Limit: 1 + w.IntN(3)}
		if w.chance(3) {
			query.States = []lifecycle.State{anyOf(w, lifecycle.States()), lifecycle.Completed}
		}
		out := both(w, fmt.Sprintf("elements of step %d of %v of %q: %+v", i, r.ID, tenant, query), func(s *side) ([]persistence.ElementPage, error) {
			return s.elementPages(w, tenant, of, query)
		})
		if len(out.Value) > 1 {
			w.saw("page of elements read")
		}
	}
}

func (s *side) elementPages(w *differ, tenant string, of workflow.TaskID, query persistence.ElementQuery) (pages []persistence.ElementPage, err error) {
	for {
		page, err := s.Store.Elements(w.ctx, tenant, of, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			page.Rows[i] = s.taskRow(page.Rows[i])
		}
		if pages = append(pages, page); page.Next == 0 {
			return pages, nil
		}
		query.After = page.Next
	}
}

func (s *side) taskRow(t persistence.TaskRow) persistence.TaskRow {
	t.Pod, t.WakeAt, t.StartedAt, t.FinishedAt = s.ordinal(t.Pod), flat(t.WakeAt), flat(t.StartedAt), flat(t.FinishedAt)
	t.Error = errorText(t.Class, t.Error)
	return t
}
