package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// BumpEpoch implements persistence.Leadership.
func (s *Store) BumpEpoch(_ context.Context, holder int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.leader = holder
	return s.epoch, nil
}

// FireTimers implements persistence.Timekeeping.
func (s *Store) FireTimers(_ context.Context, epoch int64, limit int) (persistence.Fired, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Fired{}, persistence.ErrDeposed
	}
	out := persistence.Fired{Now: b.clock, Orphans: s.dropOrphans(b.now)}
	oldest := (limit + 1) / 2
	due := s.dueTimers(b.now)
	b.fire(due[:min(len(due), oldest)], &out)
	if len(due) >= oldest && limit > oldest {
		due = s.dueTimers(b.now)
		slices.SortStableFunc(due, func(x, y timer) int { return y.at.Compare(x.at) }) // the latest first
		b.fire(due[:min(len(due), limit-oldest)], &out)
	}
	slices.SortFunc(out.Late, func(x, y time.Duration) int { return cmp.Compare(y, x) })
	out.Next = s.nextTimer(b.now)
	out.Wake = b.wake
	return out, nil
}

// fire fires timers.
func (b *batch) fire(due []timer, out *persistence.Fired) {
	s := b.s
	facts := map[workflow.RunID][]lifecycle.Fact{}
	rows := map[workflow.RunID][]timer{}
	signals := map[workflow.RunID]int{} // facts of them: what was sent before a deadline comes before it
	var order []workflow.RunID
	for _, t := range due {
		s.timers.drop(t.timerKey)
		if rows[t.run] == nil {
			order = append(order, t.run)
			facts[t.run] = s.undeliveredBefore(s.runs[t.run], due)
			signals[t.run] = len(facts[t.run])
		}
		facts[t.run] = append(facts[t.run], lifecycle.TimerFired{
			Step: t.step, Timer: t.kind, Epoch: t.epoch, Parked: t.kind == lifecycle.QueueTimer && s.parked(s.runs[t.run], t.step),
		})
		rows[t.run] = append(rows[t.run], t)
	}
	for _, id := range order {
		d := b.decide(s.runs[id], facts[id]...)
		for i, answer := range d.Answers[signals[id]:] {
			if answer == lifecycle.Moved {
				out.Count++
				out.Late = append(out.Late, b.now.Sub(rows[id][i].at))
			}
		}
	}
	b.byTask()
	b.enqueue(nil)
}

// ExpirePods implements persistence.Housekeeping.
func (s *Store) ExpirePods(_ context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Expired{}, persistence.ErrDeposed
	}
	out := persistence.Expired{Now: b.clock}
	s.deaths = slices.DeleteFunc(s.deaths, func(at time.Time) bool { return !at.After(b.now.Add(-persistence.DeathsKept)) })
	for _, id := range s.podIDs() {
		p := s.pods[id]
		if !p.dead && (p.expires.After(b.now) || !by.IsZero() && p.expires.After(by)) {
			out.Live++
			if out.NextExpiry.IsZero() || p.expires.Before(out.NextExpiry) {
				out.NextExpiry = p.expires
			}
			continue
		}
		if !p.dead && p.info.Slots > 0 {
			s.deaths = append(s.deaths, b.now)
		}
		p.dead = true
		out.Pods = append(out.Pods, id)
	}
	s.deaths = s.deaths[max(len(s.deaths)-persistence.DeathsMax, 0):]
	report := lifecycle.TaskReported{Kind: lifecycle.Lost, MaxLost: int32(maxLost), Deaths: lifecycle.Deaths{Kept: int32(len(s.deaths))}}
	for _, at := range s.deaths {
		if at.After(b.now.Add(-persistence.DeathsLately)) {
			report.Deaths.Lately++
		}
	}
	left := false // tasks beyond the limit
	for _, id := range out.Pods {
		p := s.pods[id]
		held := s.heldBy(p)
		tasks := s.usable(held)
		taken := tasks[:min(len(tasks), limit-out.Tasks)]
		b.takeBack(p, taken, report)
		out.Tasks += len(taken)
		if left = left || len(taken) < len(tasks); !left && len(tasks) == len(held) {
			s.forget(p)
		}
	}
	b.byTask()
	b.enqueue(nil)
	out.Wake = b.wake
	return out, nil
}

// ParkTasks implements persistence.Housekeeping.
func (s *Store) ParkTasks(_ context.Context, epoch int64, limit int) (persistence.Parked, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Parked{}, persistence.ErrDeposed
	}
	registered := map[int32]bool{}
	for _, p := range s.pods {
		for _, h := range p.info.Handlers {
			registered[h] = registered[h] || !p.dead
		}
	}
	out := persistence.Parked{}
	ready := map[string]int{}
	for _, name := range s.queueNames() {
		q := s.queues[name]
		back := q.unpark(registered, limit-out.Unparked)
		out.Parked += b.park(q, registered, limit-out.Parked)
		out.Unparked += back
		if back > 0 {
			ready[name] = back
		}
	}
	b.ready(ready)
	out.Wake, out.Work = b.wake, s.parkedWork(registered)
	return out, nil
}

// parkedWork returns the steps of parked tasks that no pod registers.
func (s *Store) parkedWork(registered map[int32]bool) []persistence.ParkedWork {
	rows := map[persistence.Handler][]queueRow{}
	for _, q := range s.queues {
		for _, row := range q.parked {
			if r := s.runs[row.task.Run]; r != nil && !registered[row.handler] {
				node := r.definition.node(r.declared(row.task.Step))
				h := persistence.Handler{Workflow: r.trigger.Workflow, Step: node.Name, Fingerprint: node.Fingerprint}
				rows[h] = append(rows[h], row)
			}
		}
	}
	handlers := slices.SortedFunc(maps.Keys(rows), func(x, y persistence.Handler) int {
		return cmp.Or(cmp.Compare(x.Workflow, y.Workflow), cmp.Compare(x.Step, y.Step), bytes.Compare(x.Fingerprint[:], y.Fingerprint[:]))
	})
	var work []persistence.ParkedWork
	for _, h := range handlers[:min(len(handlers), persistence.ParkedWorkMax)] {
		first := slices.MinFunc(rows[h], func(x, y queueRow) int {
			return cmp.Or(cmp.Compare(x.fairID, y.fairID), compareTasks(x.task, y.task))
		})
		work = append(work, persistence.ParkedWork{
			Workflow: h.Workflow, Step: h.Step, Definition: s.runs[first.task.Run].trigger.Definition,
			Tasks: min(len(rows[h]), persistence.ParkedCountMax),
		})
	}
	return work
}

// park moves rows that no pod can execute out of the way, and removes those
// that no claim will because their task has ended.
func (b *batch) park(q *queue, registered map[int32]bool, limit int) int {
	parked := 0
	var kept []queueRow
	for _, row := range q.rows {
		switch {
		case registered[row.handler] || parked == limit:
			kept = append(kept, row)
		case b.s.queued(row.task):
			q.parked = insertRow(q.parked, row)
			parked++
		}
	}
	q.rows = kept
	return parked
}

// unpark moves rows back that a pod can execute, to their old place or, if
// that has been served, to the end of their tenants' rows.
func (q *queue) unpark(registered map[int32]bool, limit int) int {
	unparked := 0
	var kept []queueRow
	for _, row := range q.parked {
		if !registered[row.handler] || unparked == limit {
			kept = append(kept, row)
			continue
		}
		if group, lane, block := lifecycle.SplitFairID(row.fairID); block <= q.frontier {
			row.fairID = q.take(group, lane)
		}
		q.insert(row)
		unparked++
	}
	q.parked = kept
	return unparked
}
