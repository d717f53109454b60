package elements

import (
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Begun is a map that begins its elements.
type Begun struct {
	*persistence.Map
	Taken map[int32]bool // items whose elements an earlier run has completed
}

// Writes are what one transaction writes of maps.
type Writes struct {
	begun, moved rows
	items        []items
}

// rows are how far maps have come, by column.
type rows struct {
	runs                                                         pgsql.UUIDs
	steps, atOnce, allowed, items, left, nextItems, open, failed []int32
}

// items are those of one map, by column.
type items struct {
	of       workflow.TaskID
	numbers  []int32
	payloads [][]byte
}

func (r *rows) add(run workflow.RunID, m *lifecycle.Map) {
	r.runs, r.steps = append(r.runs, run), append(r.steps, m.Step)
	r.atOnce, r.allowed, r.items = append(r.atOnce, m.Window), append(r.allowed, m.Allowed), append(r.items, m.Items)
	r.left, r.nextItems = append(r.left, m.Left), append(r.nextItems, m.From)
	r.open, r.failed = append(r.open, m.Open), append(r.failed, m.Failed)
}

// Move keeps how far a map of a run has come. begun is how it begins, if it does.
func (w *Writes) Move(run workflow.RunID, m *lifecycle.Map, begun *Begun) {
	if begun == nil {
		w.moved.add(run, m)
		return
	}
	w.begun.add(run, m)
	list := items{of: workflow.TaskID{Run: run, Step: m.Step}}
	for i, payload := range begun.Items {
		if begun.Taken[int32(i)] {
			continue
		}
		if payload == nil {
			payload = []byte{} // nil is null
		}
		list.numbers, list.payloads = append(list.numbers, int32(i)), append(list.payloads, payload)
	}
	if len(list.numbers) > 0 {
		w.items = append(w.items, list)
	}
}

// Queue adds the statements.
func (w *Writes) Queue(b *pgsql.Batch) {
	if r := &w.begun; len(r.runs) > 0 {
		b.Add("insert_maps", pgsql.Named{
			"runs": r.runs, "steps": r.steps, "at_once": r.atOnce, "allowed": r.allowed, "items": r.items, "items_left": r.left,
			"next_items": r.nextItems, "open": r.open, "failed": r.failed,
		})
	}
	for _, list := range w.items {
		b.Add("insert_map_items", pgsql.Named{
			"run": [16]byte(list.of.Run), "step": list.of.Step, "items": list.numbers, "payloads": list.payloads,
		})
	}
	if r := &w.moved; len(r.runs) > 0 {
		b.Add("update_maps", pgsql.Named{
			"runs": r.runs, "steps": r.steps, "items_left": r.left, "next_items": r.nextItems, "open": r.open, "failed": r.failed,
		})
	}
}
