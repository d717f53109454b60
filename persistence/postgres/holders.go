package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// To wait for a lock again is worth it where many use for moments what is locked, and in
// vain where one transaction has held it since the last time. Who holds a row stands in
// it (xmax), so that the two can be told apart without a wait.

const (
	// heldLong is how long a transaction has to hold something to be thought to go on
	// with that: as long as a lock is waited for.
	heldLong = 2 * time.Second
	// heldGone is for how long after it was met last nobody waits for locks.
	heldGone = strainedFor / 2
	// holdersMax bounds the transactions that are remembered, and the rows that are
	// asked for theirs.
	holdersMax = 100
)

// holders are transactions that held what somebody was about to lock. It is safe for
// concurrent use.
type holders struct {
	mu   sync.Mutex
	seen map[int64]sighting // by xmax
}

type sighting struct{ first, last time.Time }

// meet notes that a transaction holds something, and reports whether it has done so for
// long.
func (h *holders) meet(holder int64, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[int64]sighting{}
	}
	met, known := h.seen[holder]
	if !known || now.Sub(met.last) >= strainedFor {
		if h.forget(now); len(h.seen) >= holdersMax {
			return false
		}
		met.first = now
	}
	met.last = now
	h.seen[holder] = met
	return now.Sub(met.first) >= heldLong
}

// forget drops the transactions that were not met for long.
func (h *holders) forget(now time.Time) {
	for holder, met := range h.seen {
		if now.Sub(met.last) >= strainedFor {
			delete(h.seen, holder)
		}
	}
}

// heldBy notes that a transaction (0: it is not known which) holds what somebody was about
// to lock. While one does so for long nobody waits for locks.
func (s *strained) heldBy(holder int64) {
	now := clock.System{}.Now()
	if holder == 0 || !s.holders.meet(holder, now) {
		return
	}
	since := now.Add(heldGone - strainedFor)
	if at := s.at.Load(); at == nil || at.Before(since) {
		s.at.Store(&since)
	}
}

// heldRows reads what somebody holds, and who.
func (s *Store) heldRows(rows pgx.Rows, key any, add func()) error {
	var holder int64
	_, err := pgx.ForEachRow(rows, []any{key, &holder}, func() error {
		s.strained.heldBy(holder)
		add()
		return nil
	})
	return err
}

// meetHolders notes who holds runs that could not be locked just now.
func (p *pass) meetHolders(ctx context.Context, ids uuids) error {
	if len(ids) == 0 {
		return nil
	}
	text, args := p.s.statements.bind("find_holders", named{"runs": ids[:min(len(ids), holdersMax)]})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var id workflow.RunID
	return p.s.heldRows(rows, (*[16]byte)(&id), func() {})
}
