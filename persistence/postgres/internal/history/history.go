package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// ended is what has_work_ended finds.
type ended struct {
	out     persistence.Archived
	runs    pgsql.UUIDs
	classes []int16
	ends    []time.Time
}

// ArchiveRuns implements persistence.History.
func (s *History) ArchiveRuns(ctx context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	archive.Limit = archive.Most()
	found, err := s.lookEnded(ctx, epoch, archive)
	if err != nil || len(found.runs) == 0 {
		return found.out, err
	}
	if err := s.archive(ctx, epoch, &found, found.runs, archive.Retention); err != nil {
		return persistence.Archived{}, err
	}
	return found.out, s.foldMoved(ctx, epoch, found.out.Count)
}

// ArchiveRefusedMax is after how many refused runs a call stops: each of them costs
// some transactions.
const ArchiveRefusedMax = 64

// archive moves runs into history, without those that cannot be read or are refused, which
// stay where they are.
func (s *History) archive(ctx context.Context, epoch int64, found *ended, runs pgsql.UUIDs, retention persistence.Retention) error {
	spanned := false
	return pgsql.Bisect(runs, func(runs []workflow.RunID) error {
		if len(found.out.Refused) == ArchiveRefusedMax {
			found.out.Next = found.out.Refused[ArchiveRefusedMax-1] // the next call begins behind it
			return nil
		}
		count := 0
		spanned = false
		_, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
			into, err := s.makeSpans(ctx, tx, epoch, *found, retention)
			if err != nil {
				return err
			}
			spanned = true
			los, his := Intervals(runs)
			text, args := s.Bind("archive_runs", pgsql.Named{"runs": pgsql.UUIDs(runs), "los": los, "his": his, "spans": into})
			return tx.QueryRow(ctx, text, args...).Scan(&count)
		})
		if err == nil {
			found.out.Count += count
		}
		return err
	}, func(err error) bool {
		return pgerr.Unreadable(err) || spanned && errors.Is(err, pgerr.ErrSchemaRefuses)
	}, func(run workflow.RunID, err error) error {
		if errors.Is(err, pgerr.ErrSchemaRefuses) {
			found.out.Refused, found.out.RefusedFor = append(found.out.Refused, run), err
			return nil
		}
		found.out.Unreadable = append(found.out.Unreadable, run)
		return nil
	})
}

func (s *History) lookEnded(ctx context.Context, epoch int64, archive persistence.Archive) (ended, error) {
	text, args := s.Bind("has_work_ended", pgsql.Named{
		"epoch": epoch, "after": [16]byte(archive.After), "age": archive.Age.Microseconds(), "limit": archive.Limit,
		"looks": persistence.ArchiveLookMax,
	})
	var found ended
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		found = ended{}
		var leads bool
		var seen int
		var last *[16]byte
		var runs [][16]byte
		err := s.Conns.QueryRow(ctx, text, args...).Scan(&found.out.Now, &leads, &seen, &last, &runs, &found.classes, &found.ends)
		if err == nil && !leads {
			return persistence.ErrDeposed
		}
		for _, id := range runs {
			found.runs = append(found.runs, id)
		}
		switch {
		case err != nil:
		case len(runs) == archive.Limit:
			found.out.Next = runs[len(runs)-1]
		case seen == persistence.ArchiveLookMax:
			found.out.Next = *last
		}
		return err
	})
	return found, err
}

// makeSpans makes the spans that runs are archived into, and returns all of those.
func (s *History) makeSpans(ctx context.Context, tx pgx.Tx, epoch int64, found ended, retention persistence.Retention) (into []int32, err error) {
	all, err := s.spans(ctx, tx, epoch, runClasses()...)
	if err != nil {
		return nil, err
	}
	for i, at := range found.ends {
		one := all.holding(found.classes[i], at)
		if one == nil {
			made := all.around(found.classes[i], at, retention)
			if err := s.MakeSpan(ctx, tx, &made); err != nil {
				return nil, err
			}
			all.list = append(all.list, made)
			one = &made
		}
		if !slices.Contains(into, one.number) {
			into = append(into, one.number)
		}
	}
	return into, nil
}

// intervalMax is how much time there is at most between two runs of an
// interval: a longer one would have all events of that time read for them.
const intervalMax = 10 * time.Second

// Intervals returns intervals of ids that hold runs, which are ascending.
func Intervals(runs pgsql.UUIDs) (los, his pgsql.UUIDs) {
	los, his = pgsql.UUIDs{}, pgsql.UUIDs{}
	for i, id := range runs {
		if i == 0 || pgsql.MadeAt(id).Sub(pgsql.MadeAt(runs[i-1])) > intervalMax {
			los, his = append(los, id), append(his, id)
		}
		his[len(his)-1] = id
	}
	return los, his
}

// DropHistory implements persistence.History. It also seals what is over, counts what is not
// counted, and has labels of sealed spans indexed.
func (s *History) DropHistory(ctx context.Context, epoch int64, retention persistence.Retention, by time.Time) (persistence.Dropped, error) {
	var all spans
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		var err error
		all, err = s.spans(ctx, s.Conns, epoch, runClasses()...)
		return err
	})
	if err != nil {
		return persistence.Dropped{}, err
	}
	if err := s.foldCounts(ctx, epoch, &all, by); err != nil {
		return persistence.Dropped{}, err
	}
	var kept error // why spans that are over are passed over
	for over := all.over(retention, by); len(over) > 0; over = over[1:] {
		out, err := s.dropOver(ctx, epoch, over)
		switch {
		case errors.Is(err, pgerr.ErrDependents):
			kept = err
			continue
		case err != nil:
			return persistence.Dropped{}, err
		case kept != nil && out.Spans == 0 && out.Keys == 0: // the next one is held
			return persistence.Dropped{}, kept
		}
		out.More = out.More || kept != nil
		return out, nil
	}
	more, err := s.sealSpans(ctx, epoch, &all)
	if err == nil && !more {
		more, err = s.countSpans(ctx, epoch, &all)
	}
	if err == nil && !more {
		more, err = s.labelSpans(ctx, &all)
	}
	if err == nil && !more {
		err = kept
	}
	return persistence.Dropped{More: more}, err
}

// dropOver drops the first of some spans, or removes keys of it.
func (s *History) dropOver(ctx context.Context, epoch int64, over []Span) (persistence.Dropped, error) {
	var out persistence.Dropped
	done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		out = persistence.Dropped{}
		emptied, err := s.dropKeys(ctx, tx, &over[0], &out)
		if err != nil || !emptied {
			return err
		}
		out.Spans = 1
		return s.dropSpan(ctx, tx, &over[0])
	})
	switch {
	case err != nil:
		return persistence.Dropped{}, err
	case !done: // a session reads it
		return persistence.Dropped{}, nil
	}
	out.More = out.Spans == 0 || len(over) > 1
	return out, nil
}

// dropKeys removes the keys of some runs of a span, and reports whether those
// were the last.
func (s *History) dropKeys(ctx context.Context, tx pgx.Tx, span *Span, out *persistence.Dropped) (emptied bool, err error) {
	if !span.keyed {
		return true, nil
	}
	// A plan for any span would lock all of them.
	err = s.Exec(ctx, tx, "set_local", pgsql.Named{"names": []string{"plan_cache_mode"}, "values": []string{"force_custom_plan"}})
	if err != nil {
		return false, err
	}
	text, args := s.Bind("drop_keys", pgsql.Named{
		"class": span.Class, "since": span.Since, "until": span.Until, "after": span.cursor, "limit": persistence.DropRowsMax,
	})
	var seen int
	var last *[16]byte
	if err := tx.QueryRow(ctx, text, args...).Scan(&seen, &last, &out.Keys); err != nil || seen < persistence.DropRowsMax {
		return true, err
	}
	return false, s.Exec(ctx, tx, "mark_span", pgsql.Named{"span": span.number, "cursor": last})
}
