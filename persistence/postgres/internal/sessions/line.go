package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/clock"
)

// givenUp is how many connections of a line may be on their way out at once. One
// that was given up, because nothing came back on it, keeps its place in the
// pool for up to 15 s, and a ping gives up after pingMax.
const givenUp = 10

// Line is a connection whose users take turns, so that there is one at a time,
// besides those that were given up. It is safe for concurrent use.
type Line struct {
	pool *pgxpool.Pool
	turn chan struct{}

	// lend runs do on a connection of another part, where the server has none to
	// give. Nil: there is none.
	lend    func(ctx context.Context, do func(on *pgx.Conn) error) error
	refused time.Time // when the server had none; guarded by turn

	answered time.Time // when it was last used with success; guarded by turn
}

// OpenProxied makes a line that goes the way of a pool behind a proxy. It connects
// when it is used.
func OpenProxied(ctx context.Context, options Options) (*Line, error) {
	return openLine(ctx, options.proxied())
}

func openLine(ctx context.Context, config *pgxpool.Config) (*Line, error) {
	config.MaxConns = 1 + givenUp
	config.MaxConnIdleTime = time.Hour // it is not for others, however rarely it is used
	config.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > idlePing && ctx.Value(pinging{}) == nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &Line{pool: pool, turn: make(chan struct{}, 1)}, err
}

// idlePing is after how long a connection is asked for an answer before it is used.
const idlePing = time.Second

// pinging marks the context of a use that is nothing else.
type pinging struct{}

// pingMax is how long an answer may take. Giving a question up costs the connection.
const pingMax = 2 * time.Second

// Ping asks for an answer, once, unless an earlier caller gets one. ctx bounds
// the wait for them; the question itself ends where ctx is canceled, but not with its
// time.
func (l *Line) Ping(ctx context.Context) error {
	asked := clock.System{}.Now()
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.free()
	if l.answered.After(asked) {
		return nil
	}
	// Not in what is left of ctx: a caller that waited for long would cut the connection short.
	asking, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), pinging{}, true), pingMax)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			cancel()
		}
	})()
	return l.use(asking, func(on *pgx.Conn) error { return on.Ping(asking) })
}

// Close closes the connection and waits for statements in flight.
func (l *Line) Close() { l.pool.Close() }

// Connections returns how many there are, with those that were given up.
func (l *Line) Connections() int { return int(l.pool.Stat().TotalConns()) }

// Use waits for the line and runs do on it.
func (l *Line) Use(ctx context.Context, do func(on *pgx.Conn) error) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.free()
	return l.use(ctx, do)
}

// take waits for the line's turn, which free gives back.
func (l *Line) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Line) free() { <-l.turn }

// use is Use of the caller that has the turn.
func (l *Line) use(ctx context.Context, do func(on *pgx.Conn) error) error {
	now := clock.System{}.Now()
	if l.lend != nil && !l.refused.IsZero() && now.Sub(l.refused) < refusedFor {
		return l.borrow(ctx, do)
	}
	conn, err := l.pool.Acquire(ctx)
	if _, said := noConnection(err); said && l.lend != nil {
		l.refused = now
		return l.borrow(ctx, do)
	}
	if err != nil {
		return err
	}
	defer conn.Release()
	l.refused = time.Time{}
	if err = do(conn.Conn()); err == nil {
		l.answered = clock.System{}.Now()
	}
	return err
}

// borrow runs do on a connection of another part. If that comes to nothing, the next use
// asks for one of its own again, as there may be room by then.
func (l *Line) borrow(ctx context.Context, do func(on *pgx.Conn) error) error {
	err := l.lend(ctx, do)
	if err != nil {
		l.refused = time.Time{}
	}
	return err
}

// refusedFor is how long a line that was refused a connection asks for no other.
const refusedFor = 5 * time.Second
