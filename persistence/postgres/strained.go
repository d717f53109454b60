package postgres

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// A lock that is not granted in time holds up everybody whose turn is beside it. So if
// the store has waited for a transaction in vain, it remembers that transaction by the
// number that stands in the rows that it holds (xmax). As long as the transaction goes
// on, the store leaves out these rows and does everything else as always. Meanwhile it
// waits for no other transaction either that has held something for a while. If the
// holder cannot be told, the store leaves out for a while all that anybody holds.

const (
	// strainedFor is that while. After it a call has to wait in vain again, so that rows
	// which are merely busy are not left out for long.
	strainedFor = 5 * time.Second
	// strainedTold is how often the log says so at most.
	strainedTold = time.Minute
	// holdersMax bounds the transactions that are remembered: each savepoint is one.
	holdersMax = 1000
	// holdersTold is how many numbers that stand in rows one look remembers.
	holdersTold = 100
	// strangerLong is how long a number has to stand in a row, if it is that of no known
	// transaction, to be taken for the number of one that goes on. It is also how soon the
	// number has to be met again.
	strangerLong = time.Second
	// holdersFresh is how long the answer that a holder goes on is relied on.
	holdersFresh = 100 * time.Millisecond
	// goesOnFor is how old a transaction is that is taken for a holder while another one
	// is known: a holder has a number for each of its savepoints.
	goesOnFor = 500 * time.Millisecond
	// calmPatience is how long a lock is waited for while a holder of others is known.
	calmPatience = "500ms"
	// heldAskMax is how long a step with a transaction waits to be told whether its run is
	// held.
	heldAskMax = time.Second
)

// strained remembers the transactions that were waited for in vain. It is safe for
// concurrent use.
type strained struct {
	log *slog.Logger // nil: nothing is logged

	mu      sync.Mutex
	told    time.Time
	noted   time.Time // when a lock was not granted in time last
	useful  bool      // since then somebody was found who goes on
	blind   time.Time // when that was so, and it could not be told who holds it
	asked   time.Time // when it was asked last whether the holders go on
	holders map[int64]*holder
	marks   []mark // ascending; one at most is longer ago than goesOnFor
	tasks   map[workflow.TaskID]rememberedTask
}

// mark is how far the server had counted its transactions.
type mark struct {
	at   time.Time
	next int64
}

// holder is a number that stood in a row that somebody held.
type holder struct {
	first, last time.Time // when it was met
	alive       bool      // it is a transaction, or a set of some, and goes on
}

// note notes that a lock was not granted in time. If that was so a moment ago, too, and
// no transaction that goes on was found since, the holder cannot be told.
func (s *strained) note(ctx context.Context) {
	now := clock.System{}.Now()
	s.mu.Lock()
	if !s.useful && !s.noted.IsZero() && now.Sub(s.noted) < 2*strainedFor {
		s.blind = now
	}
	s.noted, s.useful = now, false
	tell := s.log != nil && (s.told.IsZero() || now.Sub(s.told) >= strainedTold)
	if tell {
		s.told = now
	}
	s.mu.Unlock()
	if tell {
		s.log.LogAttrs(ctx, slog.LevelWarn, "a lock was not granted in time: what somebody holds is gone around, and waits alone; troupe explain of a run that waits names who")
	}
}

// found remembers the numbers that stand in rows that somebody holds. A number of no known
// transaction that goes on standing there keeps looks strict, once they are.
func (s *strained) found(numbers []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	if s.holders == nil {
		s.holders = map[int64]*holder{}
	}
	for _, number := range numbers {
		h := s.holders[number]
		if h == nil {
			if len(s.holders) < holdersMax {
				s.holders[number], s.asked = &holder{first: now, last: now}, time.Time{}
			}
			continue
		}
		h.last = now
		if !h.alive && s.isBlind(now) && now.Sub(h.first) >= strangerLong {
			s.blind = now
		}
	}
}

// isBlind reports whether there was a holder lately that could not be told.
func (s *strained) isBlind(now time.Time) bool {
	return !s.blind.IsZero() && now.Sub(s.blind) < strainedFor
}

// known returns the numbers that are known to stand in rows that somebody holds.
func (s *strained) known() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.holders))
}

// stale returns the holders of which it was not asked lately whether they go on. The
// caller asks, and tells keep.
func (s *strained) stale() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	if len(s.holders) == 0 || now.Sub(s.asked) < holdersFresh {
		return nil
	}
	s.asked = now
	all := maps.Clone(s.holders)
	for _, held := range s.tasks {
		if len(all) < 2*holdersMax { // others are remembered for ten seconds at most
			all[held.by.holder] = nil
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// keep forgets the holders, among some, that do not go on. While the holder cannot be
// told, a number that is met again and again is kept: claims go around it.
func (s *strained) keep(of, alive []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	ended := make(map[int64]bool, len(of))
	for _, number := range of {
		ended[number] = true
	}
	for _, number := range alive {
		delete(ended, number)
	}
	maps.DeleteFunc(s.tasks, func(_ workflow.TaskID, held rememberedTask) bool { return ended[held.by.holder] })
	for _, number := range of {
		h := s.holders[number]
		switch {
		case h == nil:
		case !ended[number]:
			h.alive, s.useful = true, s.useful || !h.alive
		case h.alive || !s.isBlind(now) || now.Sub(h.last) >= strangerLong:
			delete(s.holders, number)
		}
	}
}

// mark notes how far the server has counted. A count below one that was seen is that of
// another server.
func (s *strained) mark(next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	if n := len(s.marks); n > 0 && next < s.marks[n-1].next {
		s.marks = nil
	}
	s.marks = append(s.marks, mark{now, next})
	for len(s.marks) > 1 && now.Sub(s.marks[1].at) >= goesOnFor {
		s.marks = s.marks[1:]
	}
}

// before returns how far the server had counted some while ago; 0: nobody knows.
func (s *strained) before() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.System{}.Now()
	for _, m := range slices.Backward(s.marks) {
		if now.Sub(m.at) >= goesOnFor {
			return m.next
		}
	}
	return 0
}

// mode is what to do about locks that somebody holds.
func (s *strained) mode() locking {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isBlind(clock.System{}.Now()):
		return lockStrict
	case len(s.holders) > 0:
		return lockCalm
	}
	return lockWaiting
}

// locking asks whether the transactions that were waited for in vain go on, and returns
// what to do about locks.
func (s *Store) locking(ctx context.Context) locking {
	if stale := s.strained.stale(); stale != nil {
		s.askHolders(ctx, stale)
	}
	return s.strained.mode()
}

// askHolders forgets the holders that do not go on. If asking fails, they are asked about
// again.
func (s *Store) askHolders(ctx context.Context, holders []int64) {
	text, args := s.statements.bind("find_alive", named{"holders": holders})
	rows, err := s.pool.Query(ctx, text, args...)
	if err != nil {
		return
	}
	var alive []int64
	var holder, next int64
	_, err = pgx.ForEachRow(rows, []any{&holder, &next}, func() error {
		alive = append(alive, holder)
		return nil
	})
	if err != nil {
		return
	}
	s.strained.keep(holders, alive)
	if len(alive) > 0 {
		s.strained.mark(next)
	}
}

// heldRows reads which rows somebody holds, and the holders. A strict look remembers the
// holders.
func (s *Store) heldRows(rows pgx.Rows, key any, strict bool, add func()) error {
	var holder int64
	var holders []int64
	_, err := pgx.ForEachRow(rows, []any{key, &holder}, func() error {
		if holder != 0 && !slices.Contains(holders, holder) && len(holders) < holdersTold {
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
