package memory

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// lookAgain is after how long a caller looks again at rows that were left out.
const lookAgain = 2 * time.Second

// Blocked names rows that calls cannot use for a while, and why. Exactly one field is set.
// Only simulations and tests block rows.
type Blocked struct {
	Locked     workflow.RunID // an outside session locks the rows of this run
	Unreadable workflow.RunID // the rows of this run are on a damaged page
	Tenant     string         // an outside session locks the fairness counters of this tenant
	Definition workflow.Hash  // an operator deleted this definition; registering it ends that
}

// Block leaves rows out of all calls until Unblock.
func (s *Store) Block(b Blocked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked[b] = true
}

// Unblock ends Block. The tasks of a tenant that wait below the frontier of their queue get
// fresh fair ids, so that its backlog is not served before the tasks of all others.
func (s *Store) Unblock(b Blocked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tenants[b.Tenant]; s.blocked[b] && t != nil {
		for _, name := range s.queueNames() {
			s.queues[name].moveToFrontier(t.group)
		}
	}
	delete(s.blocked, b)
}

// IsBlocked reports whether rows that a run needs are blocked.
func (s *Store) IsBlocked(run workflow.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocks(run)
}

// blocks is IsBlocked while the store is locked.
func (s *Store) blocks(run workflow.RunID) bool {
	if len(s.blocked) == 0 || s.runs[run] == nil {
		return false
	}
	r := s.runs[run]
	return s.blocked[Blocked{Locked: run}] || s.unreadable(run) || s.holdsBack(&r.trigger)
}

// unreadable reports whether the rows of a run cannot be read.
func (s *Store) unreadable(run workflow.RunID) bool {
	return len(s.blocked) > 0 && s.blocked[Blocked{Unreadable: run}]
}

// holdsBack reports whether a trigger cannot be stored yet.
func (s *Store) holdsBack(t *persistence.Trigger) bool {
	return len(s.blocked) > 0 && (s.blocked[Blocked{Tenant: t.Tenant}] || s.blocked[Blocked{Definition: t.Definition}])
}

// moveToFrontier gives the tasks of a tenant below the frontier fresh fair ids, in order.
func (q *queue) moveToFrontier(tenant int32) {
	var late []queueRow
	q.rows = slices.DeleteFunc(q.rows, func(row queueRow) bool {
		group, _, block := lifecycle.SplitFairID(row.fairID)
		if group != tenant || block >= q.frontier {
			return false
		}
		late = append(late, row)
		return true
	})
	for _, row := range late {
		group, lane, _ := lifecycle.SplitFairID(row.fairID)
		row.fairID = q.take(group, lane)
		q.insert(row)
	}
}

// usable returns the tasks whose runs are not blocked.
func (s *Store) usable(tasks []claimed) []claimed {
	if len(s.blocked) == 0 {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(c claimed) bool { return s.blocks(c.task.Run) })
}

// dropOrphans removes the due timers of runs whose rows are gone, and counts them.
func (s *Store) dropOrphans(now time.Time) (count int) {
	for _, t := range s.timers.knownDue(now) {
		if s.runs[t.run] == nil {
			s.timers.drop(t.timerKey)
			count++
		}
	}
	return count
}

// dueTimers returns the timers of known kinds that are due, earliest first, without those of
// blocked runs.
func (s *Store) dueTimers(now time.Time) []timer {
	return slices.DeleteFunc(s.timers.knownDue(now), func(t timer) bool { return s.blocks(t.run) })
}

// nextTimer returns when timers have to be looked at next; zero: there are none. Due ones of
// blocked runs are looked at after lookAgain, and due ones of unknown kinds never.
func (s *Store) nextTimer(now time.Time) (next time.Time) {
	for _, row := range s.timers.rows {
		due := !row.at.After(now)
		switch {
		case due && s.blocks(row.run):
			next = now.Add(lookAgain)
		case due && !row.kind.Known():
		case next.IsZero() || row.at.Before(next):
			return row.at
		default:
			return next
		}
	}
	return next
}
