package sim

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// hold is another session's transaction that locks rows which completions need: those
// of all runs, or of one in three.
type hold struct {
	until time.Time
	salt  uint64
	all   bool
}

func (h hold) has(run workflow.RunID, now time.Time) bool {
	return h.until.After(now) && (h.all || mix(h.salt, binary.BigEndian.Uint64(run[8:]))%3 == 0)
}

// isHeld reports whether rows which completions of a run need are locked.
func (s *store) isHeld(run workflow.RunID) bool {
	w := s.database.world
	return !w.Healed() && s.database.hold.has(run, w.Now())
}

// recordFree records, as PostgreSQL's adapter does, transitions whose rows are not
// locked; the rest is answered Busy.
func (s *store) recordFree(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	answers := make([]persistence.RecordAnswer, len(record.Transitions))
	var free []persistence.Transition
	var at []int
	for i, t := range record.Transitions {
		if s.isHeld(t.Task.Run) {
			answers[i].Result = lifecycle.Busy
			continue
		}
		free, at = append(free, t), append(at, i)
	}
	record.Transitions = free
	out, err := s.Store.RecordTransitions(ctx, record)
	for i, answer := range out.Answers {
		answers[at[i]] = answer
	}
	out.Answers = answers
	return out, err
}
