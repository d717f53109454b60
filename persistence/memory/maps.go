package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// rows returns all that decisions may ask for of a run.
func (s *Store) rows(r *run) lifecycle.Rows {
	rows := lifecycle.Rows{Tasks: r.tasks, Complete: true, Inbox: s.untaken(r.id()), InboxKnown: true}
	for step, m := range r.maps {
		for item := m.From; item < m.Items && len(m.Next) < int(m.Window); item++ {
			if r.items[step][item] != nil {
				m.Next = append(m.Next, item)
			}
		}
		rows.Maps = append(rows.Maps, m)
	}
	return rows
}

// keepMaps stores how far maps have come.
func (r *run) keepMaps(list []lifecycle.Map) {
	for _, m := range list {
		if r.maps == nil {
			r.maps, r.items = map[int32]lifecycle.Map{}, map[int32][][]byte{}
		}
		m.Next = nil
		r.maps[m.Step] = m
	}
}

// keepItems stores the items of a map that has begun.
func (r *run) keepItems(step int32, m *persistence.Map) {
	taken, items := r.taken(step), make([][]byte, len(m.Items))
	for i, item := range m.Items {
		if !taken[int32(i)] {
			items[i] = append([]byte{}, item...)
		}
	}
	r.items[step] = items
}

// taken returns the items of a map whose elements an earlier run has completed.
func (r *run) taken(step int32) map[int32]bool {
	items := map[int32]bool{}
	for i := range r.tasks {
		if t := &r.tasks[i]; t.IsElement() && t.Dynamic.Owner == step && t.Flags.Has(lifecycle.FlagKept) {
			items[lifecycle.ElementOf(t.Dynamic.Name)] = true
		}
	}
	return items
}

// takeElements adds the elements of maps that an ended run has completed to the run that continues
// it.
func (r *run) takeElements(old *run, steps []int32, now time.Time) {
	for i := range old.tasks {
		t := old.tasks[i]
		if !t.IsElement() || t.State != lifecycle.Completed || !slices.Contains(steps, t.Dynamic.Owner) {
			continue
		}
		r.core.Dynamic++
		output := bytes.Clone(old.detail(t.Step).output)
		taken := lifecycle.Task{
			Step: r.core.Steps + r.core.Dynamic, State: lifecycle.Completed, Traits: t.Traits, Flags: lifecycle.FlagKept,
			StartTimeout: t.StartTimeout, Epoch: 1, Dynamic: t.Dynamic,
		}
		d := r.insert(taken)
		d.output, d.finishedAt = output, now
		r.events = append(r.events, lifecycle.Event{Step: taken.Step, N: 1, Kind: lifecycle.EventCompleted, At: now})
	}
}

// mapRow returns how far a map has come.
func (r *run) mapRow(step int32) persistence.MapRow {
	m := r.maps[step]
	return persistence.MapRow{Items: m.Items, Left: m.Left, Open: m.Open, Failed: m.Failed}
}

// Elements implements persistence.Runs.
func (s *Store) Elements(_ context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, of.Run)
	if err != nil {
		return persistence.ElementPage{}, err
	}
	page := persistence.ElementPage{Map: r.mapRow(of.Step)}
	limit, size := query.Page(), 0
	for i := range r.tasks {
		t := &r.tasks[i]
		if !t.IsElement() || t.Dynamic.Owner != of.Step || t.Step <= query.After ||
			len(query.States) > 0 && !slices.Contains(query.States, t.State) {
			continue
		}
		if len(page.Rows) == limit || size >= persistence.ElementsMax {
			page.Next = page.Rows[len(page.Rows)-1].Step
			break
		}
		row := s.taskRow(r, t.Step)
		if query.Outputs {
			size += len(row.Output)
		} else {
			row.Output = nil
		}
		page.Rows = append(page.Rows, row)
	}
	return page, nil
}
