package memory

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ArchiveRuns implements persistence.History. An archived run stays where it
// is: only its timers and what attempts said last go, which are no longer needed.
func (s *Store) ArchiveRuns(_ context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Archived{}, persistence.ErrDeposed
	}
	out := persistence.Archived{Now: b.clock}
	looked := 0
	for _, id := range s.order {
		r := s.runs[id]
		if r.archived || compareRuns(id, archive.After) <= 0 {
			continue
		}
		looked++
		if s.archivable(r, b.now.Add(-archive.Age)) {
			class := r.definition.graph.Retention
			_, r.keptFrom = archive.Retention.SpanOf(class, r.finishedAt)
			r.archived = true
			s.timers.dropRun(id)
			for i := range r.details {
				r.details[i].progress = nil
			}
			out.Count++
		}
		if looked == persistence.ArchiveLookMax || out.Count == archive.Most() {
			out.Next = id
			break
		}
	}
	return out, nil
}

// archivable reports whether a run ended before an instant and nothing waits
// to be done about it.
func (s *Store) archivable(r *run, before time.Time) bool {
	return r.core.State.Terminal() && !s.blocks(r.id()) && !r.finishedAt.After(before) &&
		!slices.ContainsFunc(s.intake, func(sub submission) bool { return sub.id == r.id() && !sub.signal })
}

// dropRun removes all timers of a run.
func (t *timers) dropRun(id workflow.RunID) {
	for _, row := range slices.Clone(t.rows) {
		if row.run == id {
			t.drop(row.timerKey)
		}
	}
}

// DropHistory implements persistence.History.
func (s *Store) DropHistory(
	_ context.Context, epoch int64, retention persistence.Retention, by time.Time,
) (persistence.Dropped, error) {
	b := s.begin()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Dropped{}, persistence.ErrDeposed
	}
	out := persistence.Dropped{}
	now := persistence.NotAfter(b.now, by)
	s.forgetHours(now)
	spans := map[time.Time]bool{}
	for _, id := range slices.Clone(s.order) {
		r := s.runs[id]
		keep := retention[r.definition.graph.Retention]
		if !r.archived || keep == 0 || r.keptFrom.Add(keep).After(now) {
			continue
		}
		if k := keyOf(r.trigger); s.keys[k] == id {
			delete(s.keys, k)
			out.Keys++
		}
		s.outlive(r)
		delete(s.runs, id)
		s.inbox[id] = slices.DeleteFunc(s.inbox[id], func(e entry) bool { return e.n > 0 }) // the others are dropped by their delivery
		s.order = slices.DeleteFunc(s.order, func(other workflow.RunID) bool { return other == id })
		spans[r.keptFrom] = true
	}
	out.Spans = len(spans)
	return out, nil
}

// RotateEvents implements persistence.History. Events are kept with their runs
// here.
func (s *Store) RotateEvents(_ context.Context, epoch int64, _ time.Duration) (persistence.Rotated, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return persistence.Rotated{}, persistence.ErrDeposed
	}
	return persistence.Rotated{}, nil
}
