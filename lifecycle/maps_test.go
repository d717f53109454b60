package lifecycle

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// list is what a store keeps of the list of a map: the numbers of the items that need an element.
type list []int32

// list keeps the list of a map that may begin with a report.
func (w *world) list(step int32, m *Map) {
	var items list
	for item := range m.Items {
		if !w.takenOver(step)[item] {
			items = append(items, item)
		}
	}
	w.lists[step] = items
}

// mapOf returns how far a map has come, with the numbers that come next.
func (w *world) mapOf(step int32) Map {
	w.tb.Helper()
	m, known := w.maps[step]
	require.True(w.tb, known, "step %d has begun no elements", step)
	for _, item := range w.lists[step] {
		if item >= m.From && len(m.Next) < int(m.Window) {
			m.Next = append(m.Next, item)
		}
	}
	return m
}

// takeOver gives the run an element of a map that the run before it has completed.
func (w *world) takeOver(step, item int32) {
	w.run.Dynamic++
	w.run.Slow = true
	t := Task{
		Step: w.run.Steps + w.run.Dynamic, State: Completed, Traits: w.tasks[step].Traits, Flags: FlagKept, Epoch: 1,
		StartTimeout: w.tasks[step].StartTimeout,
		Dynamic:      &Dynamic{Declared: step, Owner: step, Name: ElementName(w.plan.name(step), item)},
	}
	w.tasks = append(w.tasks, t)
	w.events = append(w.events, Event{Step: t.Step, N: 1, Kind: EventCompleted, At: w.now})
}

func (w *world) takenOver(step int32) map[int32]bool {
	items := map[int32]bool{}
	for _, t := range w.elements(step) {
		if t.Flags.Has(FlagKept) {
			items[ElementOf(t.Dynamic.Name)] = true
		}
	}
	return items
}

// name returns the name of a task, of the failure handler or of the run.
func (w *world) name(step int32) string {
	if t := w.task(step); t != nil && t.Dynamic != nil {
		return t.Dynamic.Name
	}
	return w.plan.name(step)
}

// elements returns the elements of a map.
func (w *world) elements(step int32) []*Task {
	var elements []*Task
	for i := range w.tasks {
		if t := &w.tasks[i]; t.IsElement() && t.Dynamic.Owner == step {
			elements = append(elements, t)
		}
	}
	return elements
}

// spreading is how a map of a list begins.
func (w *world) spreading(step, items, window, allowed int32) *Map {
	m := Map{Name: w.name(step), Window: window, Allowed: allowed, Items: items}
	taken := w.takenOver(step)
	for item := range items {
		if taken[item] {
			continue
		}
		if m.Left++; m.Left <= window {
			m.Next = append(m.Next, item)
		}
	}
	return &m
}

// checkMaps: no more elements of a map are open than may be, also in the middle of a decision,
// each item has one, what a map counts is so, and it ends as its elements have (I21). Elements
// begin behind what continues, and leave no dead letters.
func (w *world) checkMaps(d Decision) {
	w.tb.Helper()
	for _, dead := range d.Dead {
		require.False(w.tb, w.task(dead.Step).IsElement(), "an element has no dead letter")
	}
	for _, e := range d.Enqueued {
		if t := w.task(e.Step); t.IsElement() && t.Epoch == 1 {
			require.Equal(w.tb, LaneNew, e.Lane)
		}
	}
	w.checkWindows(d)
	for i := range w.tasks {
		t := &w.tasks[i]
		if !t.Traits.Has(workflow.TraitMap) || t.IsElement() {
			continue
		}
		_, begun := w.maps[t.Step]
		require.Equal(w.tb, t.Flags.Has(FlagSpread), begun, "step %d: %+v", t.Step, t)
		if begun {
			w.checkMap(t, w.mapOf(t.Step))
		}
	}
}

// checkWindows follows the events of a decision: an element is made when there is room for it.
func (w *world) checkWindows(d Decision) {
	w.tb.Helper()
	for step, m := range w.maps {
		open := w.opened[step]
		for _, e := range d.Events {
			t := w.task(e.Step)
			if t == nil || !t.IsElement() || t.Dynamic.Owner != step {
				continue
			}
			if e.N == 1 {
				open++
			}
			if e.Kind.Next().Terminal() {
				open--
			}
			require.LessOrEqual(w.tb, open, m.Window, "open elements of step %d", step)
		}
		w.opened[step] = open
	}
}

func (w *world) checkMap(t *Task, m Map) {
	w.tb.Helper()
	items := map[int32]bool{}
	var open, failed, taken int32
	for _, e := range w.elements(t.Step) {
		item := ElementOf(e.Dynamic.Name)
		require.False(w.tb, items[item], "item %d has two elements", item)
		require.True(w.tb, item >= 0 && item < m.Items, "item %d", item)
		items[item] = true
		switch {
		case e.Flags.Has(FlagKept):
			taken++
			require.Equal(w.tb, Completed, e.State, "what was taken over stays")
			require.EqualValues(w.tb, 1, e.Epoch)
			continue
		case !e.State.Terminal():
			open++
		case e.State != Completed:
			failed++
		}
		require.Less(w.tb, item, m.From)
	}
	require.Equal(w.tb, [2]int32{open, failed}, [2]int32{m.Open, m.Failed}, "step %d counts open and failed elements", t.Step)
	require.Equal(w.tb, m.Items, int32(len(items))+m.Left, "each item has an element, or is left")
	require.Len(w.tb, m.Next, int(min(m.Left, m.Window)))
	switch breaks := m.Failed > m.Allowed; {
	case t.State == Waiting && breaks:
		require.Equal(w.tb, ClassElementFailed, t.Class)
		require.Positive(w.tb, open)
		for _, e := range w.elements(t.Step) {
			require.Contains(w.tb, []State{Running, Completed, Failed, Canceled}, e.State, "a map that breaks begins nothing")
		}
	case t.State == Waiting:
		require.Empty(w.tb, t.Class)
		require.Positive(w.tb, open)
		require.True(w.tb, m.Left == 0 || open == m.Window, "the window is used")
	case t.State == Canceled:
	case t.Class == ClassElementFailed:
		require.True(w.tb, breaks && t.State == Failed && open == 0, "%+v of %+v", t, m)
	default: // it gathers, or has
		require.True(w.tb, !breaks && open == 0 && m.Left == 0, "%+v of %+v", t, m)
	}
	if open > 0 {
		require.Contains(w.tb, []State{Waiting, Canceled}, t.State)
	}
	require.True(w.tb, slices.Contains([]State{Waiting, Queued, Running, Backoff, Completed, Failed, Canceled}, t.State))
}

// countMaps counts what the maps of a run that has ended have come to.
func (w *world) countMaps(counts map[string]int) {
	for step, m := range w.maps {
		t := w.task(step)
		for what, seen := range map[string]bool{
			"completed":                    t.State == Completed,
			"broke":                        t.Class == ClassElementFailed,
			"tolerated":                    t.State == Completed && m.Failed > 0,
			"moved":                        m.From > m.Window,
			"took over":                    t.State == Completed && len(w.takenOver(step)) > 0,
			"canceled":                     t.State == Canceled,
			"went on while the run failed": t.State == Completed && w.run.Failing && t.Traits.Has(workflow.TraitHoldsSettled) && m.From > m.Window,
		} {
			if seen {
				counts[what]++
			}
		}
	}
}

// waiting returns the steps that wait for something from outside of the run.
func (h *history) waiting() []int32 {
	return slices.DeleteFunc(h.in(Waiting), func(step int32) bool { return h.task(step).Traits.Has(workflow.TraitMap) })
}

// takeElements lets the run continue one that has completed elements of maps.
func (h *history) takeElements() {
	for i := range h.plan.steps {
		if step := int32(i); h.tasks[i].Traits.Has(workflow.TraitMap) && chance(h, 4) {
			h.sizes[step] = 1 + int32(h.IntN(8))
			for item := range h.sizes[step] {
				if !chance(h, 3) {
					h.takeOver(step, item)
				}
			}
		}
	}
}

// randomMap is how a map begins its elements; nil: the task is none that does, or its list is empty.
func (h *history) randomMap(t *Task) *Map {
	if !t.Traits.Has(workflow.TraitMap) || t.IsElement() || t.Flags.Has(FlagSpread) || h.sizes[t.Step] == 0 && chance(h, 6) {
		return nil
	}
	if h.sizes[t.Step] == 0 {
		h.sizes[t.Step] = 1 + int32(h.IntN(8))
	}
	most := h.sizes[t.Step]
	return h.spreading(t.Step, most, 1+int32(h.IntN(4)), int32(h.IntN(int(pick(h, 1, most))+1)))
}
