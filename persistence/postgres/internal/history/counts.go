package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

const (
	// foldEvery is after how many moved runs these are added to the counts: each group of
	// them is a row that every reader of counts reads until then, and each time costs an
	// update for each group.
	foldEvery = 20_000
	// foldMax bounds the rows that one statement adds to the counts.
	foldMax = 50_000
	// countPiece bounds the runs in history that one call counts.
	countPiece = 50_000
)

// foldMoved adds the runs of the last calls to the counts when they are many.
func (s *History) foldMoved(ctx context.Context, epoch int64, moved int) error {
	s.counts.mu.Lock()
	s.counts.moved += moved
	due := s.counts.moved >= foldEvery
	if due {
		s.counts.moved = 0
	}
	s.counts.mu.Unlock()
	if !due {
		return nil
	}
	return s.fold(ctx, epoch, time.Time{})
}

// foldCounts adds what was moved to the counts, and drops the hours of days past.
func (s *History) foldCounts(ctx context.Context, epoch int64, all *spans, by time.Time) error {
	from := persistence.HoursFrom(persistence.NotAfter(all.now, by))
	if !all.moved && all.hoursFrom != nil && !all.hoursFrom.Before(from) {
		return nil
	}
	return s.fold(ctx, epoch, from)
}

func (s *History) fold(ctx context.Context, epoch int64, from time.Time) error {
	for count := foldMax; count == foldMax; {
		done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
			text, args := s.Bind("fold_counts", pgsql.Named{"hours_from": pgsql.Instant(from), "limit": foldMax})
			return tx.QueryRow(ctx, text, args...).Scan(&count)
		})
		if err != nil || !done {
			return err
		}
	}
	return nil
}

// countSpans counts the next runs of a span that have not been counted as they were moved:
// they are of before there were counts, or a leader of an earlier version moved them. It
// reports whether there are more.
func (s *History) countSpans(ctx context.Context, epoch int64, all *spans) (more bool, err error) {
	for i := range all.list {
		one := &all.list[i]
		if !one.counting {
			continue
		}
		done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error { return s.countSpan(ctx, tx, one) })
		return done, err
	}
	return false, nil
}

func (s *History) countSpan(ctx context.Context, tx pgx.Tx, one *Span) error {
	// A plan for any span would lock all of them.
	err := s.Exec(ctx, tx, "set_local", pgsql.Named{"names": []string{"plan_cache_mode"}, "values": []string{"force_custom_plan"}})
	if err != nil {
		return err
	}
	var after [16]byte
	text, args := s.Bind("begin_count", pgsql.Named{"span": one.number})
	if err := tx.QueryRow(ctx, text, args...).Scan(&after); err != nil {
		return err
	}
	return s.Exec(ctx, tx, "count_span", pgsql.Named{
		"span": one.number, "class": one.Class, "since": one.Since, "until": one.Until, "after": after, "limit": countPiece,
	})
}

// labelSpans has the labels of the next sealed span indexed, and reports whether it did. A
// sealed span is hardly ever written to: the index blocks no session for long, and waits for
// none, as one that is made concurrently would wait for every old transaction. It is not
// behind the fence, which a new leader would wait for.
func (s *History) labelSpans(ctx context.Context, all *spans) (more bool, err error) {
	for i := range all.list {
		one := &all.list[i]
		if !one.sealed || one.labeled || s.unlabeled(one, nil) {
			continue
		}
		done, err := granted(s.Write(ctx, s.patiently(func(ctx context.Context, tx pgx.Tx) error {
			const labels = `create index if not exists {name}_labels on {table} using gin (labels jsonb_path_ops) where slice = 0 and labels is not null;`
			if err := s.define(ctx, tx, labels+failures, one); err != nil {
				return err
			}
			return s.Exec(ctx, tx, "mark_labeled", pgsql.Named{"span": one.number})
		})))
		s.unlabeled(one, err)
		return done, err
	}
	return false, nil
}

// unlabeled reports whether labels of a span could not be indexed, as in the time of a
// statement. It is not tried again: a listing walks through that span.
func (s *History) unlabeled(one *Span, err error) bool {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	if err != nil {
		if s.counts.tooLarge == nil {
			s.counts.tooLarge = map[int32]bool{}
		}
		s.counts.tooLarge[one.number] = true
	}
	return s.counts.tooLarge[one.number]
}
