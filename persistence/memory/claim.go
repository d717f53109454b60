package memory

import (
	"bytes"
	"context"
	"maps"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ClaimTasks implements persistence.Queue.
func (s *Store) ClaimTasks(_ context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	b := s.begin()
	defer s.mu.Unlock()
	p, err := s.living(request.Pod, b.now)
	if err != nil {
		return persistence.Claimed{}, err
	}
	limit := min(request.Limit, persistence.ClaimMax)
	out := persistence.Claimed{Now: b.clock}
	k := claimKey{p.id, request.Claim}
	q := s.queues[request.Queue()]
	if s.claims[k] != nil {
		out.Grants, out.Scanned = s.grants(k), limit
		return out, nil
	}
	if q != nil {
		b.claim(q, p, request, limit, &out)
	}
	out.Grants = s.grants(k)
	return out, nil
}

// claim walks a queue in the order of fair ids. Rows that are not for this
// pod, now, are passed over and stay.
func (b *batch) claim(q *queue, p *pod, request persistence.ClaimRequest, limit int, out *persistence.Claimed) {
	handlers := make(map[int32]bool, len(request.Handlers))
	for _, h := range request.Handlers {
		handlers[h] = true
	}
	suspects := request.Suspects
	var kept []queueRow
	seen := 0
	for _, row := range q.rows {
		if out.Scanned == limit {
			break
		}
		seen++
		switch {
		case row.fairID < request.After, !handlers[row.handler], row.suspect && !suspects:
			kept = append(kept, row)
		case b.s.blocks(row.task.Run):
			out.Again = lookAgain
			kept = append(kept, row)
		case request.TenantLimit > 0 && b.s.full(b.s.tenantAt(row.fairID), request.TenantLimit):
			kept = append(kept, row)
		case !b.s.queued(row.task):
			out.Scanned++
			out.Discarded++
		default:
			out.Scanned++
			suspects = suspects && !row.suspect
			b.grant(p, request.Claim, row.task)
			q.served(row.fairID)
			if out.Lowest == 0 {
				out.Lowest = row.fairID
			}
		}
	}
	q.rows = q.rows[seen-len(kept):]
	copy(q.rows, kept)
}

// full reports whether a tenant runs as many tasks as it may.
func (s *Store) full(tenant string, limit int) bool {
	return limit > 0 && s.tenants[tenant].running >= limit
}

// tenantAt returns the tenant that was given a place.
func (s *Store) tenantAt(place int64) string {
	group, _, _ := lifecycle.SplitFairID(place)
	for name, t := range s.tenants {
		if t.group == group {
			return name
		}
	}
	return ""
}

// grants returns what a claim still holds.
func (s *Store) grants(k claimKey) []persistence.Grant {
	var grants []persistence.Grant
	for _, c := range s.held(k) {
		grants = append(grants, s.describe(k.id, c))
	}
	return grants
}

// describe collects all that an attempt needs.
func (s *Store) describe(id persistence.ClaimID, c claimed) persistence.Grant {
	r := s.runs[c.task.Run]
	step := c.task.Step
	t, d, node := r.task(step), r.detail(step), r.node(step)
	g := persistence.Grant{
		Task: c.task, Epoch: c.epoch, Claim: id, Handler: r.handler(step),
		Attempt: t.Attempt + 1, Lost: t.Lost, Suspect: t.Flags.Has(lifecycle.FlagSuspect),
		Workflow: r.trigger.Workflow, Step: node.Name, Tenant: r.trigger.Tenant,
		Labels: maps.Clone(r.trigger.Labels), TraceContext: r.trigger.TraceContext,
		LastProgress: bytes.Clone(d.progress), Kept: t.Flags.Has(lifecycle.FlagKept), KeyRun: r.keyRun,
		BegunAt: r.startedAt, QueuedAt: d.queuedAt, StartedAt: d.startedAt, Canceling: r.core.Canceling,
		Options: r.options,
	}
	if t.Dynamic != nil {
		g.Declared = r.definitionOf(step).node(t.Dynamic.Declared).Name
	}
	if t.IsSpawned() {
		g.Item = bytes.Clone(d.item)
	}
	if t.Traits.Has(workflow.TraitMachine) {
		g.Machine = s.machineGrant(r)
	}
	if t.IsElement() {
		g.Item = bytes.Clone(r.items[t.Dynamic.Owner][lifecycle.ElementOf(t.Dynamic.Name)])
	}
	g.Input, g.InputSize = bytes.Clone(r.trigger.Input), len(r.trigger.Input)
	for _, parent := range node.Parents {
		g.Parents = append(g.Parents, r.outcome(parent))
	}
	if t.Traits.Has(workflow.TraitOnFailure) {
		for i := range r.tasks {
			if r.tasks[i].State == lifecycle.Failed && !r.tasks[i].IsElement() {
				g.Failed = append(g.Failed, r.outcome(r.tasks[i].Step))
			}
		}
	}
	g.Carry()
	return g
}

// outcome describes how a step ended.
func (r *run) outcome(step int32) persistence.Outcome {
	t, output := r.task(step), r.detail(step).output
	o := persistence.Outcome{Step: r.node(step).Name, Index: step, State: t.State, Size: len(output)}
	if t.State == lifecycle.Failed {
		o.Class, o.Error = t.Class, t.Error
	}
	o.Output = bytes.Clone(output)
	return o
}
