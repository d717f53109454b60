package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// Backlog implements persistence.Backlogs. There are no transactions that take long.
func (s *Store) Backlog(context.Context) (persistence.Backlog, error) {
	b := s.begin()
	defer s.mu.Unlock()
	out := persistence.Backlog{Now: b.clock}
	type step struct{ workflow, name string }
	parked := map[step]int{}
	for _, name := range s.queueNames() {
		q := s.queues[name]
		out.Queues = append(out.Queues, persistence.QueueBacklog{
			Queue: name, Ready: min(len(q.rows), persistence.BacklogMax), Oldest: s.oldest(q),
		})
		for _, row := range q.parked {
			r := s.runs[row.task.Run]
			parked[step{r.trigger.Workflow, r.definition.node(r.declared(row.task.Step)).Name}]++
		}
	}
	for of, count := range parked {
		out.Parked = append(out.Parked, persistence.ParkedBacklog{Workflow: of.workflow, Step: of.name, Count: count})
	}
	slices.SortFunc(out.Parked, func(x, y persistence.ParkedBacklog) int {
		return cmp.Or(strings.Compare(x.Workflow, y.Workflow), strings.Compare(x.Step, y.Step))
	})
	for _, reason := range lifecycle.DeadReasons() {
		count := 0
		for _, l := range s.letters {
			if l.Reason == reason && l.Requeues == 0 {
				count++
			}
		}
		if count > 0 {
			out.Dead = append(out.Dead, persistence.DeadBacklog{Reason: reason, Count: count})
		}
	}
	if i := slices.IndexFunc(s.intake, func(sub submission) bool { return !sub.signal }); i >= 0 {
		out.Intake = s.runs[s.intake[i].id].createdAt
	}
	return out, nil
}

// oldest returns when the task became ready that has waited for longest, of the first
// ones of a queue.
func (s *Store) oldest(q *queue) (oldest time.Time) {
	for i := range min(len(q.rows), persistence.BacklogLook) {
		task := q.rows[i].task
		if !s.queued(task) {
			continue
		}
		if at := s.runs[task.Run].detail(task.Step).queuedAt; oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}
