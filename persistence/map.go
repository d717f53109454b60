package persistence

import (
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Bounds of the items of a map, in bytes.
const (
	MapItemMax  = 64 << 10 // of one item
	MapItemsMax = 8 << 20  // of all items together
	// ElementsMax bounds the outputs of one page of elements.
	ElementsMax = 1 << 20
)

// Map begins the elements of a step of kind [workflow.Map].
type Map struct {
	Items   [][]byte // an element begins for each, those of an earlier run that this one continues left out
	Window  int32    // so many elements are open at once
	Allowed int32    // so many may end without completing
}

// CheckMap returns as ErrBadRow why a store refuses what a transition of a run of a graph says
// about a map.
func (t *Transition) CheckMap(graph *workflow.Graph) error {
	step := int(t.Task.Step)
	isMap := t.Report == lifecycle.Yielded && step < len(graph.Nodes) && graph.Nodes[step].Kind == workflow.Map
	if t.Map == nil && !isMap {
		return nil
	}
	size := 0
	if t.Map != nil {
		for _, item := range t.Map.Items {
			size += len(item)
		}
	}
	why := ""
	switch m := t.Map; {
	case !isMap, m == nil, t.Child != nil:
		why = "only a map begins elements, and nothing else"
	case len(m.Items) == 0 || len(m.Items) > lifecycle.MapItemsMax:
		why = fmt.Sprintf("%d items: a map begins with 1 to %d", len(m.Items), lifecycle.MapItemsMax)
	case size > MapItemsMax:
		why = fmt.Sprintf("%d bytes of items: at most %d", size, MapItemsMax)
	case m.Window < 1 || m.Window > lifecycle.MapWindowMax:
		why = fmt.Sprintf("%d elements at once: 1 to %d may be", m.Window, lifecycle.MapWindowMax)
	case m.Allowed < 0 || int(m.Allowed) > len(m.Items):
		why = fmt.Sprintf("%d of %d elements may fail", m.Allowed, len(m.Items))
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrBadRow, why)
	}
	return nil
}

// Begin returns what lifecycle has to know of a map that begins. taken are the items whose
// elements an earlier run has completed.
func (m *Map) Begin(name string, taken map[int32]bool) *lifecycle.Map {
	begun := &lifecycle.Map{Name: name, Window: m.Window, Allowed: m.Allowed, Items: int32(len(m.Items))}
	for item := range begun.Items {
		if taken[item] {
			continue
		}
		if begun.Left++; begun.Left <= m.Window {
			begun.Next = append(begun.Next, item)
		}
	}
	return begun
}

// MapRow is how far a map has come, as a reader sees it.
type MapRow struct {
	Items  int32 // of the list
	Left   int32 // have no element
	Open   int32 // elements that have not ended
	Failed int32 // elements that have ended without completing
}

// Completed returns how many elements have completed, in this run or in one that it continues.
func (m *MapRow) Completed() int32 { return m.Items - m.Left - m.Open - m.Failed }

// ElementQuery selects elements of a map.
type ElementQuery struct {
	After   int32             // tasks with higher numbers
	States  []lifecycle.State // none: all
	Outputs bool              // with their outputs: then a page ends with the element that makes it reach ElementsMax
	Limit   int               // 0, and at most: PageMax
}

// Page returns how many elements a page has at most.
func (q *ElementQuery) Page() int {
	if q.Limit <= 0 {
		return PageMax
	}
	return min(q.Limit, PageMax)
}

// ElementPage is a page of elements of a map.
type ElementPage struct {
	Map  MapRow    // zero: the map has not begun any
	Rows []TaskRow // by number; lifecycle.ElementOf their names are their items
	Next int32     // behind which to go on; 0: there are no more
}
