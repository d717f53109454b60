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

// JoinPod implements persistence.Lease.
func (s *Store) JoinPod(_ context.Context, info persistence.PodInfo) (int64, time.Time, error) {
	b := s.begin()
	defer s.mu.Unlock()
	info.Handlers, info.Queues = slices.Clone(info.Handlers), slices.Clone(info.Queues)
	info.Name = lifecycle.CleanText(info.Name)
	for _, name := range info.Queues {
		s.queue(name)
	}
	s.podCount++
	s.podNames[s.podCount] = info.Name
	delete(s.podNames, s.podCount-persistence.PodNamesMax)
	s.pods[s.podCount] = &pod{id: s.podCount, info: info, started: b.now, expires: b.now.Add(info.TTL)}
	return s.podCount, b.clock, nil
}

// Ping implements persistence.Lease.
func (s *Store) Ping(context.Context, int) error { return nil }

// RenewPod implements persistence.Lease.
func (s *Store) RenewPod(_ context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	b := s.begin()
	defer s.mu.Unlock()
	p := s.pods[renewal.Pod]
	if p == nil || p.dead {
		return persistence.Renewed{}, persistence.ErrPodDead
	}
	p.expires, p.load = b.now.Add(renewal.TTL), renewal.Load
	out := persistence.Renewed{Now: b.clock, Expires: p.expires}
	s.countPods(&out, p.id)
	holding := map[claimed]bool{}
	for _, h := range renewal.Held {
		c := claimed{h.Task, h.Epoch}
		if !s.holds(p.id, c) {
			out.Lost = append(out.Lost, h)
			continue
		}
		holding[c] = true
		r := s.runs[h.Task.Run]
		if h.Progress != nil {
			r.detail(h.Task.Step).progress = bytes.Clone(h.Progress)
		}
		if r.task(h.Task.Step).Flags.Has(lifecycle.FlagStop) && r.task(h.Task.Step).IsSpawned() {
			out.Stopped = append(out.Stopped, persistence.Held{Task: h.Task, Epoch: h.Epoch})
		}
		if r.core.Canceling {
			out.Canceling = append(out.Canceling, h.Task.Run)
		}
	}
	slices.SortFunc(out.Canceling, compareRuns)
	out.Canceling = slices.Compact(out.Canceling)
	for _, c := range s.heldBy(p) {
		if !holding[c] {
			out.Unheld = append(out.Unheld, persistence.Held{Task: c.task, Epoch: c.epoch})
		}
	}
	s.forgetIdle(p)
	return out, nil
}

// forgetIdle removes the claims of a pod of which it holds no task. One of
// which it holds any stays: else no pod would find the task.
func (s *Store) forgetIdle(p *pod) {
	p.claims = slices.DeleteFunc(p.claims, func(id persistence.ClaimID) bool {
		k := claimKey{p.id, id}
		held := slices.ContainsFunc(s.claims[k].tasks, func(c claimed) bool { return s.holds(p.id, c) })
		if !held {
			delete(s.claims, k)
		}
		return !held
	})
}

// LeavePod implements persistence.Lease.
func (s *Store) LeavePod(_ context.Context, id int64) (persistence.Wake, error) {
	b := s.begin()
	defer s.mu.Unlock()
	p := s.pods[id]
	if p == nil || p.dead {
		return persistence.Wake{}, nil
	}
	held := s.heldBy(p)
	tasks := s.usable(held)
	b.takeBack(p, tasks, lifecycle.TaskReported{Kind: lifecycle.Released})
	b.byTask()
	b.enqueue(nil)
	if len(tasks) == len(held) { // else the pod stays until its lease ends
		s.forget(p)
	}
	return b.wake, nil
}

// takeBack ends the grants of a pod, each with the same report. tasks are
// ordered by run.
func (b *batch) takeBack(p *pod, tasks []claimed, report lifecycle.TaskReported) {
	for len(tasks) > 0 {
		id := tasks[0].task.Run
		var facts []lifecycle.Fact
		for len(tasks) > 0 && tasks[0].task.Run == id {
			report.Step, report.Epoch, report.Pod = tasks[0].task.Step, tasks[0].epoch, p.id
			facts = append(facts, report)
			tasks = tasks[1:]
		}
		b.decide(b.s.runs[id], facts...)
	}
}

// find returns a run of a tenant ("": of any).
func (s *Store) find(tenant string, id workflow.RunID) (*run, error) {
	r := s.runs[id]
	switch {
	case r == nil || tenant != "" && r.trigger.Tenant != tenant:
		return nil, persistence.ErrRunNotFound
	case s.unreadable(id):
		return nil, persistence.ErrUnavailable
	}
	return r, nil
}
