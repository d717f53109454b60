package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
)

// A look is one statement that finds out whether a transaction would have
// anything to do. Its answer may be old at once: it only ever spares a
// transaction that the next look would make anyway.

// precheckIntake reports whether runs wait to be expanded, and signals to be delivered.
func (s *Store) precheckIntake(ctx context.Context) (now time.Time, runs, signals bool, err error) {
	text, args := s.Bind("has_work_intake", pgsql.Named{})
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		return s.Conns.QueryRow(ctx, text, args...).Scan(&now, &runs, &signals)
	})
	return now, runs, signals, err
}

// precheckTimers reports whether a timer is due, of runs that do not rest, and when the next
// one is.
func (s *Store) precheckTimers(ctx context.Context, epoch int64, without quarantine.Exclusions) (out persistence.Fired, due bool, err error) {
	text, args := s.Bind("has_work_timers", pgsql.Named{"epoch": epoch, "skip": without.Runs})
	var leads bool
	var next *time.Time
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		return s.Conns.QueryRow(ctx, text, args...).Scan(&out.Now, &leads, &next)
	})
	if err == nil && !leads {
		err = persistence.ErrDeposed
	}
	out.Next = pgsql.OrZero(next)
	return out, next != nil && !next.After(out.Now), err
}

// precheckPods reports whether a lease has run out, by an instant, and when the next one does,
// and whether a session keeps locks for an answer that is not read any more.
func (s *Store) precheckPods(ctx context.Context, epoch int64, by time.Time) (out persistence.Expired, late, unread bool, err error) {
	text, args := s.Bind("has_work_pods", pgsql.Named{
		"epoch": epoch, "by": pgsql.Instant(by), "given_up": s.callDeadline.Microseconds(), "schema": s.Quoted(),
	})
	var leads bool
	var count int
	var next *time.Time
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		return s.Conns.QueryRow(ctx, text, args...).Scan(&out.Now, &leads, &count, &out.Live, &next, &unread)
	})
	if err == nil && !leads {
		err = persistence.ErrDeposed
	}
	out.NextExpiry = pgsql.OrZero(next)
	return out, count > 0, unread, err
}

// precheckLed reports what a statement says, which a leader asks before it does something: whether
// there may be anything to do.
func (s *Store) precheckLed(ctx context.Context, statement string, epoch int64, args pgsql.Named) (some bool, err error) {
	of := maps.Clone(args)
	of["epoch"] = epoch
	text, values := s.Bind(statement, of)
	var leads bool
	err = pgerr.Retry(ctx, func(ctx context.Context) error { return s.Conns.QueryRow(ctx, text, values...).Scan(&leads, &some) })
	if err == nil && !leads {
		err = persistence.ErrDeposed
	}
	return some, err
}
