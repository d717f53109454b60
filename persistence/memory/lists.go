package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// ListRuns implements persistence.RunLists. It has no clock: it searches to the end.
func (s *Store) ListRuns(_ context.Context, filter persistence.RunFilter) (persistence.RunList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out persistence.RunList
	_, before := filter.Range()
	end, _ := slices.BinarySearchFunc(s.order, before, compareRuns)
	for i := end - 1; i >= 0; i-- {
		r := s.runs[s.order[i]]
		if s.unreadable(r.id()) {
			continue
		}
		row := r.row()
		if row.Output = nil; !filter.Matches(&row) {
			continue
		}
		if out.Rows = append(out.Rows, row); len(out.Rows) == filter.Page() {
			out.Next = row.ID
			break
		}
	}
	return out, nil
}

// CountRuns implements persistence.RunLists.
func (s *Store) CountRuns(_ context.Context, filter persistence.CountFilter) ([]persistence.RunCount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[persistence.RunCount]int64{}
	var open [16]int64 // by state
	for _, id := range s.order {
		r := s.runs[id]
		state, t := r.core.State, r.trigger
		if len(filter.States) > 0 && !slices.Contains(filter.States, state) || filter.Tenant != "" && t.Tenant != filter.Tenant ||
			filter.Workflow != "" && t.Workflow != filter.Workflow || filter.Timed() && !state.Terminal() || s.unreadable(id) {
			continue
		}
		group := persistence.RunCount{State: state}
		if filter.Timed() && !s.counted(r, &filter, &group) {
			continue
		}
		if filter.By&persistence.ByWorkflow != 0 {
			group.Workflow = t.Workflow
		}
		if filter.By&persistence.ByTenant != 0 {
			group.Tenant = t.Tenant
		}
		groups[group]++
		if !state.Terminal() {
			open[state]++
		}
	}
	out := make([]persistence.RunCount, 0, len(groups))
	for group, runs := range groups {
		group.Runs = runs
		if group.AtLeast = open[group.State] > persistence.CountMax; group.AtLeast {
			group.Runs = min(runs, persistence.CountMax)
		}
		out = append(out, group)
	}
	slices.SortFunc(out, func(a, b persistence.RunCount) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Workflow, b.Workflow), cmp.Compare(a.State, b.State))
	})
	return out, nil
}

// counted reports whether a run ended in an hour, or a day, that a filter asks for, and says
// in which.
func (s *Store) counted(r *run, filter *persistence.CountFilter, group *persistence.RunCount) bool {
	from, width := r.finishedAt.UTC().Truncate(time.Hour), time.Hour
	if from.Before(s.hoursFrom) {
		from, width = from.Truncate(24*time.Hour), 24*time.Hour
	}
	if !filter.Since.IsZero() && !from.Add(width).After(filter.Since) || !filter.Until.IsZero() && !from.Before(filter.Until) {
		return false
	}
	if filter.By&persistence.ByHour != 0 {
		group.From, group.Width = from, width
	}
	return true
}

// forgetHours has what ended before the last days counted by the day.
func (s *Store) forgetHours(now time.Time) {
	if from := persistence.HoursFrom(now); from.After(s.hoursFrom) {
		s.hoursFrom = from
	}
}
