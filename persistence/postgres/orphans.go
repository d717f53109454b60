package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// orphansKept is for how long the due timers of a run are kept that is not there:
	// who removed it by mistake may put it back, and restores load one table after
	// the other.
	orphansKept = time.Hour
	// orphansSeen is how often they are looked for.
	orphansSeen = time.Minute
	// orphansBlind is how long a leader may not have seen them before it knows
	// nothing of the time between.
	orphansBlind = 10 * orphansSeen
	// orphansMax is how many of their timers are looked at a time.
	orphansMax = 200_000
	// orphansMany is how many runs make it worth to pass over all that is as old as
	// their timers, which otherwise each look has to walk through.
	orphansMany = 10_000
	// orphansFresh is how old that has to be: a transaction may be under way that adds
	// a timer of a moment ago.
	orphansFresh = 10 * time.Second
	// orphansShare is the part of the time in which everything is looked at.
	orphansShare = 20
)

// orphans are the runs that somebody removed and that have timers which are due, as
// far as a leader has seen in its term. It is safe for concurrent use.
type orphans struct {
	log *slog.Logger // nil: nothing is logged

	mu    sync.Mutex
	epoch int64                        // of that term
	tried time.Time                    // when they were looked for
	seen  time.Time                    // when they were found
	since map[workflow.RunID]time.Time // when each was first missed
	whole time.Time                    // when all timers are to be looked at again
	older time.Time                    // what is older is theirs, up to then
}

// after returns from when on timers are looked at; zero: all are.
func (o *orphans) after(epoch int64) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := (clock.System{}).Now(); epoch != o.epoch || !now.Before(o.whole) {
		return time.Time{}
	}
	return o.older
}

// walked notes that all timers were looked at: next is the first that somebody has.
func (o *orphans) walked(now, next time.Time, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.since) < orphansMany {
		return
	}
	o.whole, o.older = clock.System{}.Now().Add(orphansShare*took), now.Add(-orphansFresh)
	if !next.IsZero() && next.Before(o.older) {
		o.older = next
	}
}

// due reports whether it is time to look for them.
func (o *orphans) due(epoch int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := clock.System{}.Now()
	if epoch == o.epoch && now.Sub(o.tried) < orphansSeen {
		return false
	}
	if epoch != o.epoch || now.Sub(o.seen) > orphansBlind {
		o.since = nil // they may have been there meanwhile
	}
	if epoch != o.epoch {
		o.whole = time.Time{}
	}
	o.epoch, o.tried = epoch, now
	return true
}

// missed notes which runs are not there, and returns those that have not been there
// for long.
func (o *orphans) missed(runs []workflow.RunID) (gone uuids) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, since := clock.System{}.Now(), make(map[workflow.RunID]time.Time, len(runs))
	for _, run := range runs {
		at, known := o.since[run]
		if !known {
			at = now
		}
		if since[run] = at; now.Sub(at) >= orphansKept {
			gone = append(gone, run)
		}
	}
	o.since, o.seen = since, now
	return gone
}

// forget drops those whose timers were removed.
func (o *orphans) forget(gone uuids) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, run := range gone {
		delete(o.since, run)
	}
}

// forgetOrphans removes the timers of runs that have not been there for long. Without
// it they are passed over, so that an error is for the log.
func (s *Store) forgetOrphans(ctx context.Context, epoch int64) {
	if !s.orphans.due(epoch) {
		return
	}
	err := s.removeOrphans(ctx, epoch)
	if err != nil && !errors.Is(err, persistence.ErrDeposed) && s.orphans.log != nil {
		s.orphans.log.LogAttrs(ctx, slog.LevelWarn, "cannot remove the timers of runs that are not there: trying again in a minute",
			slog.Any("error", err))
	}
}

func (s *Store) removeOrphans(ctx context.Context, epoch int64) error {
	text, args := s.statements.bind("find_orphans", named{"skip": s.lost.list(), "limit": orphansMax})
	var runs []workflow.RunID
	err := retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (run workflow.RunID, err error) {
			return run, row.Scan((*[16]byte)(&run))
		})
		return err
	})
	if err != nil {
		return err
	}
	gone := s.orphans.missed(runs)
	if len(gone) == 0 {
		return nil
	}
	err = s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("delete_orphans", named{"runs": gone})
		_, err := tx.Exec(ctx, text, args...)
		return err
	})
	if err == nil {
		s.orphans.forget(gone)
	}
	return err
}
