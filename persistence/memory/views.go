package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Events implements persistence.RunViews.
func (s *Store) Events(
	_ context.Context, tenant string, id workflow.RunID, seen persistence.EventPosition, limit int,
) ([]lifecycle.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > persistence.PageMax {
		limit = persistence.PageMax
	}
	var page []lifecycle.Event
	for i := range r.events {
		if !seen.Covers(&r.events[i]) && len(page) < limit {
			page = append(page, r.events[i])
		}
	}
	return s.named(page), nil
}

// Payload implements persistence.RunViews.
func (s *Store) Payload(_ context.Context, tenant string, id workflow.RunID, step string, limit int) (persistence.PayloadHead, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return persistence.PayloadHead{}, err
	}
	if step == "" {
		return headOf(r.trigger.Input, limit), nil
	}
	number, known := r.numberOf(step)
	if !known {
		return persistence.PayloadHead{}, persistence.ErrStepNotFound
	}
	t := r.task(number)
	if t == nil {
		return headOf(nil, limit), nil
	}
	head := headOf(r.detail(number).output, limit)
	head.State, head.Class, head.Error = t.State, t.Class, t.Error
	return head, nil
}

// numberOf returns the number of a step or dynamic task by its name.
func (r *run) numberOf(name string) (step int32, known bool) {
	if step, known = r.definition.steps[name]; known {
		return step, true
	}
	for i := range r.tasks {
		if d := r.tasks[i].Dynamic; d != nil && d.Name == name {
			return r.tasks[i].Step, true
		}
	}
	return 0, false
}

func headOf(payload []byte, limit int) persistence.PayloadHead {
	return persistence.PayloadHead{Data: bytes.Clone(payload[:min(len(payload), max(limit, 0))]), Size: sizeOf(payload)}
}

// sizeOf returns the bytes of a payload; -1: there is none.
func sizeOf(payload []byte) int {
	if payload == nil {
		return -1
	}
	return len(payload)
}

// Queues implements persistence.RunViews.
func (s *Store) Queues(_ context.Context, tenant string) ([]persistence.QueueRow, error) {
	b := s.begin()
	defer s.mu.Unlock()
	names := s.queueNames()
	list := make([]persistence.QueueRow, min(len(names), persistence.QueuesMax))
	running := s.running(tenant)
	for i := range list {
		q := s.queues[names[i]]
		row := persistence.QueueRow{Queue: names[i], More: len(q.rows) > persistence.WaitingMax, Running: running[names[i]]}
		since := b.now
		for _, place := range q.rows[:min(len(q.rows), persistence.WaitingMax)] {
			if !s.placeOf(tenant, place) {
				continue
			}
			if row.Ready++; row.Ready <= persistence.OldestLook && s.queued(place.task) {
				since = earlier(since, s.runs[place.task.Run].detail(place.task.Step).queuedAt)
			}
		}
		row.Waited, row.Places = b.now.Sub(since), s.places(q, tenant)
		list[i] = row
	}
	return list, nil
}

// placeOf reports whether a row of a queue is a tenant's ("": any).
func (s *Store) placeOf(tenant string, row queueRow) bool {
	group, _, _ := lifecycle.SplitFairID(row.fairID)
	return tenant == "" || s.tenants[tenant] != nil && s.tenants[tenant].group == group
}

// earlier returns the earlier of two instants.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// running counts the running tasks of a tenant ("": any) by queue.
func (s *Store) running(tenant string) map[string]int {
	count := map[string]int{}
	for _, id := range s.podIDs() {
		for _, c := range s.heldBy(s.pods[id]) {
			if r := s.runs[c.task.Run]; tenant == "" || r.trigger.Tenant == tenant {
				count[r.queueOf(c.task.Step)]++
			}
		}
	}
	return count
}

// places returns how far tenants are from being served, the furthest first.
func (s *Store) places(q *queue, tenant string) []persistence.TenantPlace {
	var list []persistence.TenantPlace
	for name, t := range s.tenants {
		p := persistence.TenantPlace{
			Tenant: name, Continuing: max(q.counters[counter{t.group, lifecycle.LaneContinuing}]-q.frontier, 0),
			New: max(q.counters[counter{t.group, lifecycle.LaneNew}]-q.frontier, 0),
		}
		if p.Furthest() > 0 && (tenant == "" || name == tenant) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b persistence.TenantPlace) int {
		return cmp.Or(cmp.Compare(b.Furthest(), a.Furthest()), strings.Compare(a.Tenant, b.Tenant))
	})
	return list[:min(len(list), persistence.PlacesMax)]
}

// ParkedWork implements persistence.RunViews.
func (s *Store) ParkedWork(_ context.Context, tenant string) ([]persistence.ParkedRow, error) {
	b := s.begin()
	defer s.mu.Unlock()
	var list []persistence.ParkedRow
	for handler, number := range s.handlers {
		for name, q := range s.queues {
			row := persistence.ParkedRow{Handler: handler, Queue: name, Since: b.now}
			for _, place := range q.parked {
				if place.handler == number && s.placeOf(tenant, place) {
					row.Tasks++
					row.Since = earlier(row.Since, s.runs[place.task.Run].detail(place.task.Step).queuedAt)
				}
			}
			if row.Tasks > 0 {
				row.Tasks, row.More = min(row.Tasks, persistence.WaitingMax), row.Tasks > persistence.WaitingMax
				list = append(list, row)
			}
		}
	}
	slices.SortFunc(list, func(x, y persistence.ParkedRow) int {
		return cmp.Or(strings.Compare(x.Workflow, y.Workflow), strings.Compare(x.Step, y.Step),
			bytes.Compare(x.Fingerprint[:], y.Fingerprint[:]), strings.Compare(x.Queue, y.Queue))
	})
	return list, nil
}

// Workflows implements persistence.RunViews.
func (s *Store) Workflows(context.Context) ([]persistence.DefinitionRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	registered := map[int32]bool{}
	for _, p := range s.pods {
		for _, handler := range p.info.Handlers {
			registered[handler] = registered[handler] || !p.dead
		}
	}
	var list []persistence.DefinitionRow
	for hash, d := range s.definitions {
		row := persistence.DefinitionRow{Workflow: d.graph.Name, Hash: hash, Steps: len(d.graph.Nodes)}
		for step, handler := range d.handlers[:len(d.handlers)-len(d.graph.Older)] { // those of older versions are none of its steps
			node := d.node(int32(step))
			sleeps := node.Traits.Has(workflow.TraitSleep) || node.Traits.Has(workflow.TraitSleepUntil)
			if !sleeps && !registered[handler] && len(row.Unregistered) < persistence.UnregisteredMax {
				row.Unregistered = append(row.Unregistered, node.Name)
			}
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b persistence.DefinitionRow) int {
		return cmp.Or(strings.Compare(a.Workflow, b.Workflow), bytes.Compare(a.Hash[:], b.Hash[:]))
	})
	return list[:min(len(list), persistence.DefinitionsMax)], nil
}

// Pods implements persistence.RunViews.
func (s *Store) Pods(context.Context) ([]persistence.PodRow, error) {
	b := s.begin()
	defer s.mu.Unlock()
	var list []persistence.PodRow
	for _, id := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[id]
		if p.dead || len(list) == persistence.PodsMax {
			continue
		}
		list = append(list, persistence.PodRow{
			ID: p.id, Name: p.info.Name, Version: p.info.Version, Protocol: p.info.Protocol, Slots: p.info.Slots,
			Queues: slices.Clone(p.info.Queues), StartedAt: p.started, Expires: p.expires, Lease: p.expires.Sub(b.now),
			Leads: p.id == s.leader,
		})
	}
	return list, nil
}
