package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// lostFor is for how long a run that could not be read is passed over: somebody
	// may have brought back what was missing.
	lostFor = time.Minute
	// lostMax bounds the runs that are remembered.
	lostMax = 1000
)

// lost are runs that the server could not read. It is safe for concurrent use.
type lost struct {
	log *slog.Logger // nil: nothing is logged

	mu   sync.Mutex
	runs map[workflow.RunID]time.Time // when that was
}

// add remembers a run, and names it in the log.
func (l *lost) add(ctx context.Context, run workflow.RunID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil || len(l.runs) >= lostMax {
		l.runs = map[workflow.RunID]time.Time{}
	}
	l.runs[run] = clock.System{}.Now()
	if l.log != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "a run cannot be read, and is passed over for a while: look at what the disk has lost",
			slog.String("run_id", run.String()), slog.Any("error", err))
	}
}

// forget takes runs back that were remembered by mistake.
func (l *lost) forget(runs ...workflow.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range runs {
		delete(l.runs, run)
	}
}

// list returns the runs that are passed over.
func (l *lost) list() uuids {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, now := uuids{}, clock.System{}.Now()
	for run, at := range l.runs {
		if now.Sub(at) >= lostFor {
			delete(l.runs, run)
			continue
		}
		list = append(list, run)
	}
	return list
}

// aroundTries bounds how often one call looks for what cannot be read.
const aroundTries = 64

// around makes a call, which does at most limit things, around the runs that
// cannot be read: with ever smaller limits, until the first thing is one of those,
// which is passed over from then on. call returns the run of the first thing. If
// nothing helps it was none of them. used is the limit of the call that succeeded.
func (s *Store) around(
	ctx context.Context, limit int, call func(limit int) (first workflow.RunID, err error),
) (used int, err error) {
	var found []workflow.RunID
	first, err := call(limit)
	for tries := 0; unreadable(err) && !first.IsZero() && tries < aroundTries; tries++ {
		if limit == 1 {
			s.lost.add(ctx, first, err)
			found = append(found, first)
		}
		limit = max(limit/2, 1)
		first, err = call(limit)
	}
	if unreadable(err) {
		s.lost.forget(found...)
	}
	return limit, err
}

// claimReadable claims around the runs that cannot be read, in a transaction that
// tries parts of what is ready until it knows which those are.
func (s *Store) claimReadable(ctx context.Context, request persistence.ClaimRequest, queue int16) (out persistence.Claimed, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var granted bool
		text, args := s.statements.bind("find_claim", named{"pod": request.Pod, "claim": [16]byte(request.Claim)})
		if err := tx.QueryRow(ctx, text, args...).Scan(&granted); err != nil {
			return err
		}
		if granted { // its outcome was not known
			out, err = s.claim(ctx, tx, request, queue, []int64{}, inlineNothing)
			return err
		}
		rows, err := s.peekPlaces(ctx, tx, request, queue)
		if err != nil {
			return err
		}
		places, err := s.readable(ctx, tx, request, queue, rows)
		if err != nil {
			return err
		}
		out, err = s.claim(ctx, tx, request, queue, places, persistence.InlinePayloadMax)
		if len(rows) == request.Limit { // there may be more behind those that were passed over
			out.Scanned = request.Limit
		}
		return err
	})
	return out, err
}

// place is where a task of a run waits.
type place struct {
	at  int64
	run workflow.RunID
}

// peekPlaces returns the next places that a claim may take, in order.
func (s *Store) peekPlaces(ctx context.Context, tx pgx.Tx, request persistence.ClaimRequest, queue int16) ([]place, error) {
	text, args := s.statements.bind("peek_places", named{
		"queue": queue, "after": request.After, "handlers": orEmpty(request.Handlers), "suspects": request.Suspects,
		"limit": request.Limit, "skip": s.lost.list(),
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (place, error) {
		var p place
		err := row.Scan(&p.at, (*[16]byte)(&p.run))
		return p, err
	})
}

// findLost finds what cannot be read among what is ready.
func (s *Store) findLost(ctx context.Context, request persistence.ClaimRequest, queue int16) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := s.peekPlaces(ctx, tx, request, queue)
		if err == nil {
			_, err = s.readable(ctx, tx, request, queue, rows)
		}
		return err
	})
}

// readable returns the places, among some, whose tasks can be claimed.
func (s *Store) readable(ctx context.Context, tx pgx.Tx, request persistence.ClaimRequest, queue int16, rows []place) ([]int64, error) {
	places := make([]int64, len(rows))
	for i, row := range rows {
		places[i] = row.at
	}
	if len(rows) == 0 {
		return places, nil
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		_, err := s.claim(ctx, tx, request, queue, places, persistence.InlinePayloadMax)
		if err != nil {
			return err
		}
		return errTrial
	})
	switch {
	case err == errTrial: //nolint:errorlint // as it was returned
		return places, nil
	case !unreadable(err):
		return nil, err
	case len(rows) == 1:
		s.lost.add(ctx, rows[0].run, err)
		return []int64{}, nil
	}
	half := len(rows) / 2
	first, err := s.readable(ctx, tx, request, queue, rows[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.readable(ctx, tx, request, queue, rows[half:])
	return append(first, second...), err
}
