package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// orphansKept is for how long the due timers of a run are kept that is not there:
	// who removed it by mistake may put it back, and restores load one table after
	// the other.
	orphansKept = time.Hour
	// orphansSeen is how often they are looked at.
	orphansSeen = time.Minute
	// orphansMax is how many runs are remembered at a time.
	orphansMax = 50_000
)

// orphans are the runs that somebody removed and that have timers which are due, as
// far as a leader has seen. It is safe for concurrent use.
type orphans struct {
	mu    sync.Mutex
	some  bool
	seen  time.Time                    // when all timers were looked at
	since map[workflow.RunID]time.Time // when each was first missed
}

// look reports whether the timers of runs that are not there are passed over. Once in
// orphansSeen they are not, so that somebody finds out that they have gone, and it is
// time to see which they are.
func (o *orphans) look() (living, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := clock.System{}.Now()
	if o.some && now.Sub(o.seen) < orphansSeen {
		return true, false
	}
	o.seen = now
	return false, o.some
}

// note says whether there were some among the timers that are due. all: nothing else
// is due.
func (o *orphans) note(some, all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case some:
		o.some = true
	case all:
		o.some, o.since = false, nil
	}
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
	o.since = since
	return gone
}

// forgetOrphans removes the timers of runs that have not been there for long.
func (s *Store) forgetOrphans(ctx context.Context, epoch int64) error {
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
	return s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("delete_orphans", named{"runs": gone})
		_, err := tx.Exec(ctx, text, args...)
		return err
	})
}
