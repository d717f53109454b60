package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// historyPatience is how long work on history waits for a lock: it can be done
// later, and what waits behind it cannot.
const historyPatience = "100ms"

// leadHistory runs do as a leader, with little patience. A lock that is not granted
// is no error: done is false then.
func (s *Store) leadHistory(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx) error) (done bool, err error) {
	err = s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		err := s.exec(ctx, tx, "set_local", named{
			// Hash joins: what is archived at once is joined to itself.
			"names": []string{"lock_timeout", "enable_hashjoin"}, "values": []string{historyPatience, "on"},
		})
		if err != nil {
			return err
		}
		return do(ctx, tx)
	})
	if errors.Is(err, errLockTimeout) {
		return false, nil
	}
	return err == nil, err
}

// ended is what look_ended finds.
type ended struct {
	out     persistence.Archived
	runs    uuids
	classes []int16
	ends    []time.Time
}

// ArchiveRuns implements persistence.History.
func (s *Store) ArchiveRuns(ctx context.Context, epoch int64, archive persistence.Archive) (persistence.Archived, error) {
	archive.Limit = archive.Most()
	found, err := s.lookEnded(ctx, epoch, archive)
	if err != nil || len(found.runs) == 0 {
		return found.out, err
	}
	if err := s.archive(ctx, epoch, &found, found.runs, archive.Retention); err != nil {
		return persistence.Archived{}, err
	}
	return found.out, nil
}

// archiveRefusedMax is how many refused runs a call goes on behind: each of them costs
// some transactions.
const archiveRefusedMax = 64

// archive moves runs into history, without those that cannot be read or are refused, which
// stay where they are.
func (s *Store) archive(ctx context.Context, epoch int64, found *ended, runs uuids, retention persistence.Retention) error {
	spanned := false
	return bisect(runs, func(runs []workflow.RunID) error {
		if len(found.out.Refused) == archiveRefusedMax {
			found.out.Next = found.out.Refused[archiveRefusedMax-1] // the call after this one goes on there
			return nil
		}
		count := 0
		spanned = false
		_, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
			if err := s.makeSpans(ctx, tx, epoch, *found, retention); err != nil {
				return err
			}
			spanned = true
			los, his := intervals(runs)
			text, args := s.statements.bind("archive_runs", named{"runs": uuids(runs), "los": los, "his": his})
			return tx.QueryRow(ctx, text, args...).Scan(&count)
		})
		if err == nil {
			found.out.Count += count
		}
		return err
	}, func(err error) bool { return unreadable(err) || spanned && errors.Is(err, errSchemaRefuses) }, func(run workflow.RunID, err error) error {
		if errors.Is(err, errSchemaRefuses) {
			found.out.Refused, found.out.RefusedFor = append(found.out.Refused, run), err
			return nil
		}
		found.out.Unreadable = append(found.out.Unreadable, run)
		return nil
	})
}

func (s *Store) lookEnded(ctx context.Context, epoch int64, archive persistence.Archive) (ended, error) {
	text, args := s.statements.bind("look_ended", named{
		"epoch": epoch, "after": [16]byte(archive.After), "age": archive.Age.Microseconds(), "limit": archive.Limit,
		"looks": persistence.ArchiveLookMax,
	})
	var found ended
	err := retry(ctx, func(ctx context.Context) error {
		found = ended{}
		var leads bool
		var seen int
		var last *[16]byte
		var runs [][16]byte
		err := s.pool.QueryRow(ctx, text, args...).Scan(&found.out.Now, &leads, &seen, &last, &runs, &found.classes, &found.ends)
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

// makeSpans makes the spans that runs are archived into.
func (s *Store) makeSpans(ctx context.Context, tx pgx.Tx, epoch int64, found ended, retention persistence.Retention) error {
	all, err := s.spans(ctx, tx, epoch, runClasses()...)
	if err != nil {
		return err
	}
	for i, at := range found.ends {
		if all.holds(found.classes[i], at) {
			continue
		}
		one := all.around(found.classes[i], at, retention)
		if err := s.makeSpan(ctx, tx, &one); err != nil {
			return err
		}
		all.list = append(all.list, one)
	}
	return nil
}

// intervalMax is how much time there is at most between two runs of an
// interval: a longer one would have all events of that time read for them.
const intervalMax = 10 * time.Second

// intervals returns intervals of ids that hold runs, which are ascending.
func intervals(runs uuids) (los, his uuids) {
	los, his = uuids{}, uuids{}
	for i, id := range runs {
		if i == 0 || made(id).Sub(made(runs[i-1])) > intervalMax {
			los, his = append(los, id), append(his, id)
		}
		his[len(his)-1] = id
	}
	return los, his
}

// DropHistory implements persistence.History. It also seals what is over.
func (s *Store) DropHistory(ctx context.Context, epoch int64, retention persistence.Retention, by time.Time) (persistence.Dropped, error) {
	var all spans
	err := retry(ctx, func(ctx context.Context) error {
		var err error
		all, err = s.spans(ctx, s.pool, epoch, runClasses()...)
		return err
	})
	if err != nil {
		return persistence.Dropped{}, err
	}
	var kept error // why spans that are over are passed over
	for over := all.over(retention, by); len(over) > 0; over = over[1:] {
		out, err := s.dropOver(ctx, epoch, over)
		switch {
		case errors.Is(err, errDependents):
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
		err = kept
	}
	return persistence.Dropped{More: more}, err
}

// dropOver drops the first of some spans, or removes keys of it.
func (s *Store) dropOver(ctx context.Context, epoch int64, over []span) (persistence.Dropped, error) {
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
	case !done: // somebody reads it, and will for a while
		return persistence.Dropped{}, nil
	}
	out.More = out.Spans == 0 || len(over) > 1
	return out, nil
}

// dropKeys removes the keys of some runs of a span, and reports whether those
// were the last.
func (s *Store) dropKeys(ctx context.Context, tx pgx.Tx, span *span, out *persistence.Dropped) (emptied bool, err error) {
	if !span.keyed {
		return true, nil
	}
	// A plan for any span would lock all of them.
	err = s.exec(ctx, tx, "set_local", named{"names": []string{"plan_cache_mode"}, "values": []string{"force_custom_plan"}})
	if err != nil {
		return false, err
	}
	text, args := s.statements.bind("drop_keys", named{
		"class": span.class, "since": span.since, "until": span.until, "after": span.cursor, "limit": persistence.DropRowsMax,
	})
	var seen int
	var last *[16]byte
	if err := tx.QueryRow(ctx, text, args...).Scan(&seen, &last, &out.Keys); err != nil || seen < persistence.DropRowsMax {
		return true, err
	}
	return false, s.exec(ctx, tx, "mark_span", named{"span": span.number, "cursor": last})
}
