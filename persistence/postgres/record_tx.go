package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// callsMax bounds how often RecordInTx calls a step function, because the
// database rolled its transaction back.
const callsMax = 3

// RecordInTx implements persistence.Journal. fn gets a pgx.Tx of the user's
// pool at READ COMMITTED; the engine's statements come last.
func (s *Store) RecordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	var r *recording
	var err error
	for range callsMax {
		r, err = s.recordInTx(ctx, record, fn)
		if !errors.Is(err, persistence.ErrConflict) && !rolledBack(err) {
			break
		}
	}
	switch {
	case err == nil:
		r.remember()
		return r.out, nil
	case errors.Is(err, errNotMoved):
		return r.out, nil
	case r != nil && errors.Is(err, persistence.ErrBadRow):
		return s.recordRefused(ctx, r, err)
	}
	return persistence.Recorded{}, err
}

// rolledBack reports whether an error of a step function is the database's
// wish that its transaction be made again.
func rolledBack(err error) bool { return hasCode(err, "40001") || hasCode(err, "40P01") }

// recordInTx makes the transaction once. An error of fn is returned as it is,
// without a recording.
func (s *Store) recordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (r *recording, err error) {
	conn, err := s.borrow(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	began, own := false, false // the transaction, and the engine's part of it
	var failed, spoiled error  // fn, or its transaction
	begin := pgx.TxOptions{BeginQuery: s.beginStep(&record)}
	err = pgx.BeginTxFunc(ctx, conn, begin, func(tx pgx.Tx) error {
		began = true
		var transition persistence.Transition
		if transition, failed = fn(ctx, ownedTx{tx}); failed != nil {
			return failed
		}
		if spoiled = usable(tx); spoiled != nil {
			return spoiled
		}
		record.Transitions = []persistence.Transition{transition}
		r = newRecording(s, record)
		if err := r.settle(ctx, tx); err != nil {
			return err
		}
		own = true
		if err := r.own(ctx, tx); err != nil {
			return err
		}
		own = false
		return nil
	})
	switch {
	case !began:
		return nil, notBegun(err)
	case failed != nil && ctx.Err() == nil && conn.Conn().IsClosed() && cut(failed):
		return nil, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil && exhausted(failed):
		return nil, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil:
		return nil, failed
	case spoiled != nil:
		return nil, spoiled
	}
	if own {
		return r, r.ownRefused(s.mendCounters(ctx, err))
	}
	return r, stepRefused(err)
}

// borrowMax is how long a step waits for a connection of the user's pool.
const borrowMax = 10 * time.Second

// errPoolEmpty: it is not the step's fault that others hold every connection.
var errPoolEmpty = fmt.Errorf("%w: the pool that was given to the engine had no connection for %v:"+
	" give back what step functions and others take from it, or make it larger", persistence.ErrUnavailable, borrowMax)

// borrow takes a connection of the user's pool.
func (s *Store) borrow(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, borrowMax)
	defer cancel()
	conn, err := s.user.Acquire(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errPoolEmpty
	}
	return conn, translate(err)
}

// own adds the engine's statements to the user's transaction. What is not
// recorded now ends it: a repeated transition leaves no effects.
func (r *recording) own(ctx context.Context, tx pgx.Tx) error {
	if cause := r.refuseInstants(0); cause != nil {
		return cause
	}
	fast, rest := r.split()
	if len(fast) > 0 {
		f := &fastRecord{recording: r, indexes: fast}
		if err := f.inTx(ctx, tx, lockWaiting); err != nil {
			return err
		}
		if err := r.merge(ctx, tx, f); err != nil {
			return err
		}
		rest = f.rest()
	}
	if len(rest) > 0 {
		if err := r.s.checkPod(ctx, tx, r.record.Pod); err != nil {
			return err
		}
		d, err := r.decide(ctx, tx, rest, lockWaiting)
		if err != nil {
			return err
		}
		r.apply(d)
	}
	if r.reload {
		var err error
		if r.out.Grants, err = r.s.loadGrants(ctx, tx, r.record.Pod, r.record.Claim); err != nil {
			return err
		}
	}
	if r.out.Answers[0].Result != lifecycle.Moved {
		r.out.Wake = persistence.Wake{}
		return errNotMoved
	}
	return nil
}

// recordRefused fails the attempt whose values the database refuses. What its
// step function wrote was rolled back.
func (s *Store) recordRefused(ctx context.Context, r *recording, cause error) (persistence.Recorded, error) {
	again := newRecording(s, r.record)
	if again.refuseInstants(0) == nil {
		if other := again.blame(ctx, 0, lockWaiting, again.slow, cause); other != nil {
			return persistence.Recorded{}, fmt.Errorf("%w: %s", persistence.ErrUnavailable, other.Error())
		}
	}
	again.fail(0, cause)
	if err := again.all(ctx); err != nil {
		return persistence.Recorded{}, fmt.Errorf("record a refused attempt: %w", err)
	}
	return again.out, nil
}
