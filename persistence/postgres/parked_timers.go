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

// Timers whose runs somebody removed are parked when they become due: taken out of the
// way of the others, however many they are. Who removed runs by mistake may put them
// back, and restores load one table after the other: parked timers are looked at every
// minute, go back if their runs are there, and are removed after an hour.

const (
	// parkMax is how many are parked from either end of what is due, and looked at,
	// in one transaction, for which others wait.
	parkMax = 5000
	// parkedSeen is the time from one look at all of them to the next, and parkedRest
	// that between two parts of it.
	parkedSeen = time.Minute
	parkedRest = 100 * time.Millisecond
	// parkedKept is for how long they are kept, in the eyes of one leader: of the time
	// before its term it does not know whether the run was there.
	parkedKept = time.Hour
)

// parkedTimer is the key of one.
type parkedTimer struct {
	run  workflow.RunID
	step int32
	kind int16
	key  string
}

// parkedTimers is where a leader stands in its look at them. It is safe for concurrent
// use.
type parkedTimers struct {
	log *slog.Logger // nil: nothing is logged

	mu     sync.Mutex
	epoch  int64
	begun  time.Time   // the term
	some   bool        // there may be some
	round  time.Time   // when the look at all of them began
	last   time.Time   // when the last part of it was
	behind parkedTimer // where it goes on; zero: with the first
	warned time.Time
}

// isNew reports whether nothing is known of a term yet.
func (p *parkedTimers) isNew(epoch int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return epoch != p.epoch
}

// begin notes that a term has begun, unless it is the last one, and whether some are
// parked.
func (p *parkedTimers) begin(epoch int64, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == p.epoch {
		return
	}
	p.epoch, p.begun, p.some = epoch, clock.System{}.Now(), some
	p.round, p.last, p.behind = time.Time{}, time.Time{}, parkedTimer{}
}

// noted says that some were parked.
func (p *parkedTimers) noted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.some = true
}

// turn reports whether it is time for a part of the look, behind which timer it begins,
// and for how long timers are kept.
func (p *parkedTimers) turn() (behind parkedTimer, kept time.Duration, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := clock.System{}.Now()
	first := p.behind == parkedTimer{}
	if !p.some || now.Sub(p.last) < parkedRest || first && now.Sub(p.round) < parkedSeen {
		return parkedTimer{}, 0, false
	}
	if p.last = now; first {
		p.round = now
	}
	if kept = parkedKept; now.Sub(p.begun) < parkedKept {
		kept = 100 * 365 * 24 * time.Hour
	}
	return p.behind, kept, true
}

// seen notes what a part of the look came to. It reports whether there is another.
func (p *parkedTimers) seen(behind, last parkedTimer, count int) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more = count == parkMax
	p.behind = parkedTimer{}
	if more {
		p.behind = last
	}
	if count == 0 && behind == (parkedTimer{}) {
		p.some = false
	}
	return more
}

// failed is for the log, once a minute.
func (p *parkedTimers) failed(ctx context.Context, err error) {
	p.mu.Lock()
	now := clock.System{}.Now()
	often := now.Sub(p.warned) < parkedSeen
	if !often {
		p.warned = now
	}
	p.mu.Unlock()
	if p.log != nil && !often && !errors.Is(err, persistence.ErrDeposed) {
		p.log.LogAttrs(ctx, slog.LevelWarn, "cannot park the timers of runs that are not there, or look at them: trying again", slog.Any("error", err))
	}
}

// sweepParked looks at some of the parked timers, if it is time. An error is for the log:
// they stand in nobody's way.
func (s *Store) sweepParked(ctx context.Context, epoch int64, out *persistence.Fired) {
	behind, kept, due := s.parked.turn()
	if !due {
		return
	}
	var count, back int
	var last parkedTimer
	err := s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("sweep_timers", named{
			"run": behind.run, "step": behind.step, "kind": behind.kind, "key": behind.key,
			"limit": parkMax, "kept": kept.Microseconds(),
		})
		count, back, last = 0, 0, parkedTimer{}
		err := tx.QueryRow(ctx, text, args...).Scan(&count, &back, (*[16]byte)(&last.run), &last.step, &last.kind, &last.key)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		s.parked.failed(ctx, err)
		return
	}
	if s.parked.seen(behind, last, count) {
		soon := out.Now.Add(parkedRest)
		if out.Next.IsZero() || soon.Before(out.Next) {
			out.Next = soon
		}
	}
	out.More = out.More || back > 0
}

// parkTimers takes timers of runs that are not there out of the way of others, from the
// end of what is due that which chooses from. It reports whether it did. An error is for
// the log: the others have fired.
func (s *Store) parkTimers(ctx context.Context, epoch int64, which string) (some bool) {
	statement := "park_timers"
	if which == dueLatest {
		statement = "park_timers_latest"
	}
	err := s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind(statement, named{"skip": s.lost.list(), "limit": parkMax})
		tag, err := tx.Exec(ctx, text, args...)
		some = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		s.parked.failed(ctx, err)
		return false
	}
	if some {
		s.parked.noted()
	}
	return some
}
