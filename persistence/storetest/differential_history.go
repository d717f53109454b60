package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// anHour keeps the runs of the standard class for an hour.
func anHour() persistence.Retention { return persistence.Retention{workflow.RetainStandard: time.Hour} }

// archive moves ended runs into history, and rotates events. No reader sees a
// difference.
func (w *differ) archive() {
	reign, limit := w.reign(), w.some()
	request := persistence.Archive{Limit: min(limit, persistence.ArchiveMax), Retention: anHour()}
	if len(w.state.Runs) > 0 && w.chance(4) {
		request.After = anyOf(w, w.state.Runs).ID
	}
	if w.chance(8) {
		request.Age = time.Hour
	}
	w.archiveRuns(reign, request)
	w.compareStates()
	both(w, "rotate events", func(s *side) (string, error) {
		for {
			out, err := s.Store.RotateEvents(w.ctx, s.epoch(reign), time.Hour)
			if err != nil || !out.More {
				return "", err
			}
		}
	})
	w.saw("events rotated")
}

func (w *differ) archiveRuns(reign int, request persistence.Archive) {
	what := fmt.Sprintf("archive %d runs above %v, reign %d", request.Limit, request.After, reign)
	out := both(w, what, func(s *side) (persistence.Archived, error) {
		if request.Age > 0 { // by whose clock did they end?
			_, err := s.Store.ArchiveRuns(w.ctx, s.epoch(reign), persistence.Archive{Age: aCentury})
			return persistence.Archived{}, err
		}
		out, err := s.Store.ArchiveRuns(w.ctx, s.epoch(reign), request)
		out.Now = flat(out.Now)
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Count, "run archived")
}

// aCentury is longer ago than anything.
const aCentury = 100 * 365 * 24 * time.Hour

// retire removes what has been in history for hours, and so all of it that is
// not kept for ever.
func (w *differ) retire() {
	w.pass(2)
	w.compareStates()
	w.renewSome()
	reign := w.reign()
	out := both(w, fmt.Sprintf("drop history, reign %d", reign), func(s *side) (persistence.Dropped, error) {
		out, err := drop(w.ctx, s.Store, s.epoch(reign), anHour(), time.Time{})
		out.Spans = min(out.Spans, 1) // where a span begins is a matter of the clock
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Spans, "span removed")
	w.sawAll(out.Value.Keys, "key removed")
}

// drop removes all that is to be removed, and returns what that was in all.
func drop(ctx context.Context, s persistence.Store, epoch int64, retention persistence.Retention, by time.Time) (persistence.Dropped, error) {
	var all persistence.Dropped
	for {
		one, err := s.DropHistory(ctx, epoch, retention, by)
		all.Spans, all.Keys = all.Spans+one.Spans, all.Keys+one.Keys
		if err != nil || !one.More {
			return all, err
		}
	}
}
