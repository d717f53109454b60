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
	// parkedSeen is the time from one look at all of them to the next, and parkedRest
	// that between two parts of it, of so many each.
	parkedSeen = time.Minute
	parkedRest = 100 * time.Millisecond
	parkedPart = 5000
	// parkedFirst is the time from the beginning of a term to its first look.
	parkedFirst = 5 * time.Second
	// parkedKept is for how long they are kept, in the eyes of one leader: of the time
	// before its term it does not know whether the run was there.
	parkedKept = time.Hour
	// parkedLock is how long parking waits for a lock: everybody's timers do meanwhile.
	parkedLock = "set local lock_timeout = '200ms'"
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
	round  time.Time   // when the look at all of them began
	last   time.Time   // when the last part of it was
	behind parkedTimer // where it goes on; zero: with the first
	warned time.Time
}

// turn reports whether it is time for a part of the look, behind which timer it begins,
// and for how long timers are kept.
func (p *parkedTimers) turn(epoch int64) (behind parkedTimer, kept time.Duration, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := clock.System{}.Now()
	if epoch != p.epoch {
		p.epoch, p.begun, p.round, p.behind = epoch, now, now.Add(parkedFirst-parkedSeen), parkedTimer{}
	}
	first := p.behind == parkedTimer{}
	if now.Sub(p.last) < parkedRest || first && now.Sub(p.round) < parkedSeen {
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

// seen notes which timer was the last of a part of the look. It reports whether there is
// another part.
func (p *parkedTimers) seen(last parkedTimer, count int) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = parkedTimer{}
	if count == parkedPart {
		p.behind = last
	}
	return count == parkedPart
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
	if p.log != nil && !often && ctx.Err() == nil && !errors.Is(err, persistence.ErrDeposed) {
		p.log.LogAttrs(ctx, slog.LevelWarn, "cannot park the timers of runs that are not there, or look at them: trying again", slog.Any("error", err))
	}
}

// sweepParked looks at some of the parked timers, if it is time. An error is for the log:
// they stand in nobody's way.
func (s *Store) sweepParked(ctx context.Context, epoch int64, out *persistence.Fired) {
	behind, kept, due := s.parked.turn(epoch)
	if !due {
		return
	}
	if (behind == parkedTimer{}) {
		var some bool
		text, args := s.statements.bind("some_parked", named{})
		if err := s.pool.QueryRow(ctx, text, args...).Scan(&some); err != nil {
			s.parked.failed(ctx, err)
			return
		}
		if !some {
			return
		}
	}
	var count, back int
	var last parkedTimer
	err := s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, parkedLock); err != nil {
			return err
		}
		text, args := s.statements.bind("sweep_timers", named{
			"run": behind.run, "step": behind.step, "kind": behind.kind, "key": behind.key,
			"limit": parkedPart, "kept": kept.Microseconds(),
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
	if s.parked.seen(last, count) {
		callWithin(out, parkedRest)
	}
	out.More = out.More || back > 0
}

// parkTimers takes timers of runs that are not there out of the way of others, of a part
// of what is due that begins with an instant. It reports whether it did. An error is for
// the log: the others have fired.
func (s *Store) parkTimers(ctx context.Context, epoch int64, from time.Time) (some bool) {
	err := s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, parkedLock); err != nil {
			return err
		}
		text, args := s.statements.bind("park_timers", named{"from": instant(from), "skip": s.lost.list(), "kinds": knownTimers, "limit": parkPart})
		tag, err := tx.Exec(ctx, text, args...)
		some = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		s.parked.failed(ctx, err)
	}
	return some && err == nil
}
