package postgres

import (
	"context"
	"fmt"
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
	lostFor = 2 * time.Minute
	// lostEndsFor is the same for its completions, which are tried again first: else
	// more of the run would be claimed before it is known that none of it can be
	// completed, again and again.
	lostEndsFor = time.Minute
	// sharedFor is the same for completions that met something which others need, too:
	// it may be mended for all at once.
	sharedFor = 5 * time.Second
	// lostMax bounds the runs that are remembered. Where more cannot be read nothing
	// but what was lost helps: calls that meet them fail, and pods say so.
	lostMax = 1000
)

// lost are runs that the server could not read. It is safe for concurrent use.
type lost struct {
	keep time.Duration // how long they are passed over
	log  *slog.Logger  // nil: nothing is logged

	mu   sync.Mutex
	runs map[workflow.RunID]time.Time // until when
}

// add remembers a run, and names it in the log if it was not remembered. It returns
// err if there are too many.
func (l *lost) add(ctx context.Context, run workflow.RunID, err error) error {
	return l.addFor(ctx, run, l.keep, err)
}

// addFor does so for a while that is not the usual one.
func (l *lost) addFor(ctx context.Context, run workflow.RunID, keep time.Duration, err error) error {
	known, full := l.remember(run, keep)
	if full {
		return fmt.Errorf("more than %d runs cannot be read: restore what the disk has lost: %w", lostMax, err)
	}
	if !known && l.log != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "a run cannot be read, and is passed over for a while: restore what was lost",
			slog.String("run_id", run.String()), slog.Any("error", err))
	}
	return nil
}

// remember reports whether the run was passed over before, or cannot be because too
// many are.
func (l *lost) remember(run workflow.RunID, keep time.Duration) (known, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[workflow.RunID]time.Time{}
	}
	_, known = l.runs[run]
	if !known && len(l.runs) >= lostMax {
		return false, true
	}
	l.runs[run] = clock.System{}.Now().Add(keep)
	return known, false
}

// list returns the runs that are passed over.
func (l *lost) list() uuids {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, now := uuids{}, clock.System{}.Now()
	for run, until := range l.runs {
		if !now.Before(until) {
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
// that can be read it is something that all of them need. used is the limit of the
// call that succeeded.
func (s *Store) around(
	ctx context.Context, limit int, call func(limit int) (first workflow.RunID, err error),
) (used int, err error) {
	first, err := call(limit)
	for tries := 0; unreadable(err) && !first.IsZero() && tries < aroundTries; tries++ {
		if limit == 1 {
			if !s.damaged(ctx, first) {
				break
			}
			if full := s.lost.add(ctx, first, err); full != nil {
				return limit, full
			}
		}
		limit = max(limit/2, 1)
		first, err = call(limit)
	}
	return limit, err
}

// damaged reports whether something of a run cannot be read, by itself.
func (s *Store) damaged(ctx context.Context, run workflow.RunID) bool {
	text, args := s.statements.bind("probe_run", named{"run": [16]byte(run)})
	var rows int64
	return unreadable(retry(ctx, func(ctx context.Context) error { return s.pool.QueryRow(ctx, text, args...).Scan(&rows) }))
}

// claimReadable claims around the runs that cannot be read. Where all that is next
// is of such runs it looks further, for a while.
func (s *Store) claimReadable(ctx context.Context, request persistence.ClaimRequest, queue int16) (out persistence.Claimed, err error) {
	begun, passed := clock.System{}.Now(), 0
	for {
		var found int
		if out, found, err = s.claimReadableNext(ctx, request, queue); err != nil {
			return out, err
		}
		passed += found
		if late := (clock.System{}).Now().Sub(begun) >= passFor; late || found < request.Limit {
			break
		}
	}
	out.Passed = passed
	if passed > 0 { // there may be more behind those
		out.Scanned = request.Limit
	}
	return out, nil
}

// passFor is how long one claim goes on looking behind what it passed over.
const passFor = time.Second

// claimReadableNext claims what can be read of what is next, and returns how much
// cannot.
func (s *Store) claimReadableNext(
	ctx context.Context, request persistence.ClaimRequest, queue int16,
) (out persistence.Claimed, found int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		found = 0
		var granted bool
		text, args := s.statements.bind("find_claim", named{"pod": request.Pod, "claim": [16]byte(request.Claim)})
		if err := tx.QueryRow(ctx, text, args...).Scan(&granted); err != nil {
			return err
		}
		if granted { // its outcome was not known
			out, err = s.claim(ctx, tx, request, queue, []int64{}, inlineNothing)
			return err
		}
		rows, err := s.peek(ctx, tx, "peek_places", request, queue, nil)
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			out, err = s.claim(ctx, tx, request, queue, placesOf(rows), persistence.InlinePayloadMax)
			return err
		})
		if !unreadable(err) {
			return err
		}
		places, err := s.readable(ctx, tx, request, queue, rows)
		if err != nil {
			return err
		}
		found = len(rows) - len(places)
		out, err = s.claim(ctx, tx, request, queue, places, persistence.InlinePayloadMax)
		return err
	})
	return out, found, err
}

// findLost finds what cannot be read among what a claim under a limit may look at,
// and returns how much it is.
func (s *Store) findLost(ctx context.Context, request persistence.ClaimRequest, queue int16) (found int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for range peeksMax {
			rows, err := s.peek(ctx, tx, "peek_places", request, queue, nil)
			if err != nil || len(rows) == 0 {
				return err
			}
			places, err := s.readable(ctx, tx, request, queue, rows)
			if found = len(rows) - len(places); err != nil || found > 0 {
				return err
			}
			request.After = rows[len(rows)-1].at + 1
		}
		return nil
	})
	return found, err
}

// readable returns the places, among some, whose tasks can be claimed.
func (s *Store) readable(ctx context.Context, tx pgx.Tx, request persistence.ClaimRequest, queue int16, rows []peeked) ([]int64, error) {
	places := placesOf(rows)
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
	case len(rows) > 1:
	case !s.damaged(ctx, rows[0].task.Run): // what all claims need is
		return nil, err
	default:
		return []int64{}, s.lost.add(ctx, rows[0].task.Run, err)
	}
	half := len(rows) / 2
	first, err := s.readable(ctx, tx, request, queue, rows[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.readable(ctx, tx, request, queue, rows[half:])
	return append(first, second...), err
}
