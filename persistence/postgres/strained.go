package postgres

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// A lock that is not granted in time holds up everybody whose turn is beside it. So
// who was waited for in vain is remembered, by its transaction, which stands in the
// rows that it holds (xmax): as long as it goes on, what it holds is left out, and
// everything else is done as always. Where it cannot be told who it is, all that
// anybody holds is left out for a while.

const (
	// strainedFor is that while. After it somebody has to wait in vain again, so that
	// what is merely busy is not left out for long.
	strainedFor = 5 * time.Second
	// strainedTold is how often the log says so at most.
	strainedTold = time.Minute
	// holdersMax bounds the transactions that are remembered.
	holdersMax = 100
	// holdersFresh is how long it is taken for true that they go on.
	holdersFresh = 100 * time.Millisecond
	// calmPatience is how long a lock is waited for while somebody is known to hold others.
	calmPatience = "500ms"
)

// strained is who was waited for in vain. It is safe for concurrent use.
type strained struct {
	log *slog.Logger // nil: nothing is logged

	mu      sync.Mutex
	told    time.Time
	noted   time.Time // when a lock was not granted in time last
	blind   time.Time // when that was so, and nobody was known to hold it
	holders []int64   // transactions
	asked   time.Time // when it was asked last whether they go on
}

// note notes that a lock was not granted in time. If that was so a moment ago, and
// nobody goes on to hold what was found then, it cannot be told who does.
func (s *strained) note(ctx context.Context) {
	now := clock.System{}.Now()
	s.mu.Lock()
	if len(s.holders) == 0 && now.Sub(s.noted) < 2*strainedFor {
		s.blind = now
	}
	s.noted = now
	tell := s.log != nil && now.Sub(s.told) >= strainedTold
	if tell {
		s.told = now
	}
	s.mu.Unlock()
	if tell {
		s.log.LogAttrs(ctx, slog.LevelWarn, "a lock was not granted in time: what somebody holds is gone around, and waits alone; troupe explain of a run that waits names who")
	}
}

// found remembers who holds what was waited for; nobody: it cannot be told.
func (s *strained) found(holders []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	if len(holders) == 0 {
		s.blind = now
	}
	for _, holder := range holders {
		if !slices.Contains(s.holders, holder) && len(s.holders) < holdersMax {
			s.holders = append(s.holders, holder)
		}
	}
	s.asked = now
}

// known returns the transactions that hold something, as far as is known.
func (s *strained) known() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.holders)
}

// stale returns those of which it was not asked lately whether they go on; who asks
// tells keep.
func (s *strained) stale() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	if len(s.holders) == 0 || now.Sub(s.asked) < holdersFresh {
		return nil
	}
	s.asked = now
	return slices.Clone(s.holders)
}

// keep forgets those of some transactions that do not go on.
func (s *strained) keep(of, alive []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders = slices.DeleteFunc(s.holders, func(holder int64) bool {
		return slices.Contains(of, holder) && !slices.Contains(alive, holder)
	})
}

// mode is what to do about locks that somebody holds.
func (s *strained) mode() locking {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.blind.IsZero() && clock.System{}.Now().Sub(s.blind) < strainedFor:
		return lockStrict
	case len(s.holders) > 0:
		return lockCalm
	}
	return lockWaiting
}

// locking asks whether those who were waited for in vain go on, and returns what to do
// about locks.
func (s *Store) locking(ctx context.Context) locking {
	if stale := s.strained.stale(); stale != nil {
		text, args := s.statements.bind("find_alive", named{"holders": stale})
		rows, err := s.pool.Query(ctx, text, args...)
		if err == nil {
			var alive []int64
			if alive, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err == nil {
				s.strained.keep(stale, alive)
			}
		}
	}
	return s.strained.mode()
}

// heldRows reads what somebody holds, and who. In a strict look these are remembered.
func (s *Store) heldRows(rows pgx.Rows, key any, strict bool, add func()) error {
	var holder int64
	var holders []int64
	_, err := pgx.ForEachRow(rows, []any{key, &holder}, func() error {
		if holder != 0 && !slices.Contains(holders, holder) && len(holders) < holdersMax {
			holders = append(holders, holder)
		}
		add()
		return nil
	})
	if strict && len(holders) > 0 {
		s.strained.found(holders)
	}
	return err
}

// knownHeld returns the runs among some that those who are known to hold something
// hold, and whether it is all of their tenant that they do.
func (p *pass) knownHeld(ctx context.Context, ids uuids) (held map[workflow.RunID]bool, err error) {
	text, args := p.s.statements.bind("known_held", named{"runs": ids, "holders": p.s.strained.known()})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	held = map[workflow.RunID]bool{}
	var id [16]byte
	var tenant bool
	_, err = pgx.ForEachRow(rows, []any{&id, &tenant}, func() error {
		held[id] = tenant
		return nil
	})
	return held, err
}

// lookForHolders finds who holds runs, or what gives their tenants places, for whom
// somebody has waited in vain in a transaction that is not the engine's.
func (s *Store) lookForHolders(ctx context.Context, ids uuids) {
	s.strained.note(ctx)
	_ = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { // another one will be made
		if _, err := s.newPass(tx).lockFree(ctx, ids, lockStrict); err != nil {
			return err
		}
		return errTrial
	})
}
