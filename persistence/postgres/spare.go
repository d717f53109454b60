package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
)

// A server that has no connection to give, as to a role that may have no more, gives
// none to the lease and the leader either, which a pod cannot do without. They get one
// that the pool has: what is closed and asked for again goes to whoever is faster.

const (
	giveMax   = time.Second     // for a connection that somebody gives back
	giveRest  = 2 * time.Second // until the pool may grow again
	giveAgain = 5 * time.Second // between two that are given away
	giveLeft  = 1               // stays
)

// Give takes a connection out of the store's own pool, for whoever cannot do without
// one and is refused it. It is the caller's, with the settings of the store's
// sessions. Nil: there is none to spare, or it is a proxy's.
func (s *Store) Give(ctx context.Context) *pgx.Conn { return s.pool.give(ctx) }

func (s *sessions) give(ctx context.Context) *pgx.Conn {
	select {
	case s.giving <- struct{}{}:
		defer func() { <-s.giving }()
	case <-ctx.Done():
		return nil
	}
	now := clock.System{}.Now()
	if s.settle != "" || !s.given.IsZero() && now.Sub(s.given) < giveAgain {
		return nil
	}
	if stat := s.pool.Stat(); stat.AcquiredConns()+stat.IdleConns() <= giveLeft {
		return nil
	}
	s.dials.rest(giveRest)
	ctx, cancel := context.WithTimeout(ctx, giveMax)
	defer cancel()
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil
	}
	s.given = now
	return conn.Hijack()
}

// lend runs do, for whoever makes settings of his own, on a connection of the pool,
// which has its settings back after it.
func (s *sessions) lend(ctx context.Context, do func(on *pgx.Conn) error) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = do(conn.Conn())
	if reset := unsettle(ctx, conn.Conn()); reset != nil {
		_ = conn.Conn().Close(ctx) // nobody else may have it
	}
	return err
}
