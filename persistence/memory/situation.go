package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Situation implements persistence.Situations. There are no locks.
func (s *Store) Situation(_ context.Context, tenant string, id workflow.RunID) (explain.Situation, error) {
	b := s.begin()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return explain.Situation{}, err
	}
	out := explain.Situation{Now: b.clock, Run: id, State: r.core.State, Parent: r.family.Parent.Run}
	if out.State.Terminal() {
		out.End = s.end(r)
		return out, nil
	}
	out.Canceling, out.CancelReason, out.Submitted = r.core.Canceling, r.cancelReason, !r.expanded
	out.Protocol = persistence.ProtocolOf(r.definition.graph)
	out.StartsAt = s.timers.at[timerKey{id, lifecycle.RunStep, lifecycle.StartTimer}]
	out.Fenced = s.timers.at[timerKey{id, lifecycle.RunStep, lifecycle.CancelGraceTimer}]
	out.Leader = s.leader
	if t := s.tenants[r.trigger.Tenant]; t != nil && r.expanded {
		out.TenantBusy = t.running
	}
	for i := range r.tasks {
		if !r.tasks[i].State.Terminal() {
			out.Tasks = append(out.Tasks, s.explained(r, r.tasks[i].Step))
		}
	}
	s.lines(&out)
	out.Handlers = s.seen(&out, b.now)
	for _, pod := range s.podIDs() {
		out.Pods = append(out.Pods, s.explainedPod(s.pods[pod], out.Handlers))
	}
	return out, nil
}

// end is how a run ended.
func (s *Store) end(r *run) explain.End {
	end := explain.End{At: r.finishedAt, CancelReason: r.cancelReason}
	if at := slices.IndexFunc(r.events, func(e lifecycle.Event) bool { return e.Kind == lifecycle.EventCancelRequested }); at >= 0 {
		end.CanceledBy = r.events[at].By
	}
	for i := range r.tasks {
		t := &r.tasks[i]
		if t.State != lifecycle.Failed || t.IsElement() { // its map tells of it
			continue
		}
		f := explain.Failed{Name: r.node(t.Step).Name, At: r.detail(t.Step).finishedAt, Attempts: t.Attempt, Lost: t.Lost, Class: t.Class, Error: t.Error}
		if l := s.letters[workflow.TaskID{Run: r.id(), Step: t.Step}]; l != nil {
			f.RequeuedAt, f.RequeuedAs = l.RequeuedAt, l.RequeuedAs
		}
		if r.failure != nil && r.failure.step == f.Name {
			end.Failed = slices.Insert(end.Failed, 0, f)
			continue
		}
		end.Failed = append(end.Failed, f)
	}
	end.Failed = end.Failed[:min(len(end.Failed), explain.FailedMax)]
	return end
}

// explained is a task that has not ended.
func (s *Store) explained(r *run, step int32) explain.Task {
	t, d := r.task(step), r.detail(step)
	e := explain.Task{
		Step: step, Name: r.node(step).Name, State: t.State, Pending: t.Pending, Children: slices.Clone(t.Children),
		Attempt: t.Attempt, Lost: t.Lost, Class: t.Class, Error: t.Error, Pod: t.Pod,
		Queue: r.queueOf(step), Handler: r.handler(step),
		QueuedAt: d.queuedAt, StartedAt: d.startedAt, Timer: s.timers.of(r.id(), step),
	}
	switch {
	case t.State != lifecycle.Waiting:
	case t.Traits.Has(workflow.TraitChild):
		e.Since, e.Child = r.lastEvent(step, lifecycle.EventWaiting), s.explainedChild(r.children[step], r.node(step).Child.Workflow)
	case t.Traits.Has(workflow.TraitMachine):
		e.Since = r.lastEvent(step, lifecycle.EventActivated)
	case t.Traits.Has(workflow.TraitMap):
		e.Since, e.Map = r.lastEvent(step, lifecycle.EventWaiting), r.explainedMap(step)
	default:
		e.Signal, e.SkipLate, e.Since = t.Signal, t.Traits.Has(workflow.TraitSkipsLate), r.lastEvent(step, lifecycle.EventWaiting)
		e.Sent = slices.ContainsFunc(s.inbox[r.id()], func(n entry) bool { return n.n == 0 && n.name == t.Signal })
	}
	if e.Machine, e.Spawned = t.Traits.Has(workflow.TraitMachine), t.IsSpawned(); e.Machine {
		e.Hears = r.definition.graph.Signals()
	}
	if t.IsElement() {
		e.Element = t.Dynamic.Owner
	}
	if t.State == lifecycle.Queued {
		e.Expires = s.timers.at[timerKey{r.id(), step, lifecycle.QueueTimer}]
	}
	return e
}

// explainedChild is the child run of a step.
func (s *Store) explainedChild(id workflow.RunID, of string) explain.ChildRun {
	c := explain.ChildRun{Run: id, Workflow: of}
	child := s.runs[id]
	if child == nil || child.archived {
		return c
	}
	switch c.State = child.core.State; c.State { //nolint:exhaustive // the others are endings
	case lifecycle.Pending:
		c.Since = child.createdAt
	case lifecycle.Running:
		c.Since = child.startedAt
	}
	return c
}

// explainedMap is how far a map has come that waits for its elements.
func (r *run) explainedMap(step int32) explain.MapState {
	m := r.maps[step]
	out := explain.MapState{Items: m.Items, Left: m.Left, Open: m.Open, Failed: m.Failed}
	for i := range r.tasks {
		if t := &r.tasks[i]; t.IsElement() && t.Dynamic.Owner == step && t.State == lifecycle.Running {
			out.Running++
		}
	}
	return out
}

// lastEvent returns when the last event of a kind happened to a task; zero: never.
func (r *run) lastEvent(step int32, kind lifecycle.EventKind) (at time.Time) {
	for i := range r.events {
		if e := &r.events[i]; e.Step == step && e.Kind == kind {
			at = e.At
		}
	}
	return at
}

// lines finds the ready tasks of a situation in their queues.
func (s *Store) lines(out *explain.Situation) {
	looked := map[string]bool{}
	for i := range out.Tasks {
		t := &out.Tasks[i]
		if t.State != lifecycle.Queued {
			continue
		}
		q := s.queue(t.Queue)
		if !looked[t.Queue] {
			looked[t.Queue] = true
			out.Queues = append(out.Queues, explain.Queue{Name: t.Queue, Length: min(len(q.rows), explain.LineMax)})
		}
		task := workflow.TaskID{Run: out.Run, Step: t.Step}
		is := func(row queueRow) bool { return row.task == task }
		t.Parked = slices.ContainsFunc(q.parked, is)
		at := slices.IndexFunc(q.rows[:min(len(q.rows), explain.LineMax)], is)
		if at < 0 {
			continue
		}
		group, _, _ := lifecycle.SplitFairID(q.rows[at].fairID)
		t.Ready, t.Suspect, t.Place = true, q.rows[at].suspect, at+1
		for _, row := range q.rows[:at+1] {
			if g, _, _ := lifecycle.SplitFairID(row.fairID); g == group {
				t.Nth++
			}
		}
	}
	slices.SortFunc(out.Queues, func(a, b explain.Queue) int { return cmp.Compare(a.Name, b.Name) })
}

// seen returns the handlers of the ready tasks, and when each was last seen.
func (s *Store) seen(out *explain.Situation, now time.Time) []explain.Handler {
	var handlers []explain.Handler
	for i := range out.Tasks {
		number := out.Tasks[i].Handler
		known := slices.ContainsFunc(handlers, func(h explain.Handler) bool { return h.Number == number })
		if out.Tasks[i].State == lifecycle.Queued && !known {
			handlers = append(handlers, explain.Handler{Number: number, LastSeen: s.lastSeen(number, now)})
		}
	}
	slices.SortFunc(handlers, func(a, b explain.Handler) int { return int(a.Number) - int(b.Number) })
	return handlers
}

func (s *Store) lastSeen(handler int32, now time.Time) time.Time {
	var last time.Time
	later := func(at time.Time) {
		if at.After(last) {
			last = at
		}
	}
	for _, p := range s.pods {
		if slices.Contains(p.info.Handlers, handler) {
			at := p.expires
			if at.After(now) {
				at = now
			}
			later(at)
		}
	}
	looked := 0
	for i := len(s.order) - 1; i >= 0 && looked < explain.StartsMax; i-- {
		r := s.runs[s.order[i]]
		if r.archived {
			continue
		}
		looked += len(r.tasks)
		for i := range r.tasks {
			if r.handler(r.tasks[i].Step) == handler {
				later(r.details[i].startedAt)
			}
		}
	}
	return last
}

func (s *Store) explainedPod(p *pod, handlers []explain.Handler) explain.Pod {
	e := explain.Pod{
		ID: p.id, Name: p.info.Name, Slots: p.info.Slots, Dead: p.dead, Expires: p.expires, Queues: slices.Clone(p.info.Queues),
		Protocol: p.info.Protocol,
	}
	for _, c := range s.heldBy(p) {
		e.Held++
		if s.runs[c.task.Run].task(c.task.Step).Flags.Has(lifecycle.FlagSuspect) {
			e.Suspects++
		}
	}
	for _, h := range handlers {
		if slices.Contains(p.info.Handlers, h.Number) {
			e.Handlers = append(e.Handlers, h.Number)
		}
	}
	return e
}
