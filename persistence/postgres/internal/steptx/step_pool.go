package steptx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// It is not the step's fault that others hold every connection, or that the
// server does not answer on one.
var (
	ErrPoolEmpty = persistence.Plain(fmt.Errorf("%w: the pool that was given to the engine had no connection in time:"+
		" give back what step functions and others take from it, or make it larger", persistence.ErrTxNotBegun))
	ErrPoolSilent = persistence.Plain(fmt.Errorf("%w: no answer came in time on a connection of the pool that was given to the engine", persistence.ErrTxNotBegun))
)

// VanishedMin is how long the server may say nothing under a step, at least.
const VanishedMin = 3 * time.Second

// Vanished is after how long a server that says nothing under a step is taken for
// gone: so early that the step's time is not over, and so late that a lock which
// it waits for, with something sent that is not received, is not taken for that.
func Vanished(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit*2/3, VanishedMin)
}

// Borrow takes a connection of the user's pool. A hook of that pool that panics is
// not the step's fault.
func (s *Steps) Borrow(ctx context.Context, waiting *PoolWait) (conn *pgxpool.Conn, err error) {
	limited, cancel := context.WithTimeout(ctx, waiting.limit)
	defer cancel()
	defer func() {
		if broken := recover(); broken != nil {
			conn, err = nil, NotBegun(fmt.Errorf("a hook of the embedder's pool panicked: %s", panics.Text(broken)))
		}
	}()
	conn, err = s.EmbedderPool.Acquire(limited)
	switch {
	case err == nil:
		if err = s.admit(ctx, conn, waiting); err != nil {
			return nil, err
		}
		return conn, nil
	case limited.Err() == nil, ctx.Err() != nil:
		return nil, NotBegun(err)
	}
	waiting.GaveUp()
	if stat := s.EmbedderPool.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return nil, ErrPoolSilent
	}
	return nil, ErrPoolEmpty
}

// admit gives a connection back that is not written to, or on which the server does not answer.
func (s *Steps) admit(ctx context.Context, conn *pgxpool.Conn, waiting *PoolWait) error {
	limited, cancel := context.WithTimeout(ctx, waiting.limit)
	defer cancel()
	err := s.PoolLineage.Admit(limited, conn.Conn().PgConn())
	if err == nil {
		return nil
	}
	var refused wire.RefusedError
	if errors.As(err, &refused) {
		_ = conn.Conn().Close(limited) // the pool makes another one
	}
	conn.Release()
	if limited.Err() != nil && ctx.Err() == nil {
		waiting.GaveUp()
		return ErrPoolSilent
	}
	return NotBegun(err)
}

// unheardMax bounds the question what became of a connection.
const unheardMax = 2 * time.Second

// Unheard reports whether a step whose time was up in the middle of a statement
// waited for a server that waits for the step: nothing passes between them, though
// something there may acknowledge all that is sent. A pod that cannot ask has lost
// the server, too. A statement that is at work, or was until it was canceled just
// now, is the step's own; so it is if the session has gone.
func (s *Steps) Unheard(ctx context.Context, pid uint32) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unheardMax)
	defer cancel()
	text, args := s.Bind("find_idle", pgsql.Named{"pid": int64(pid)})
	var idle bool
	err := s.Conns.QueryRow(ctx, text, args...).Scan(&idle)
	return err != nil || idle
}

// beginning begins transactions of steps, in time.
type beginning struct {
	remind   func(context.Context, *pgx.Conn) error
	conn     *pgxpool.Conn
	options  pgx.TxOptions
	patience time.Duration
}

// Begin is what pgx.BeginFunc calls.
func (b beginning) Begin(ctx context.Context) (pgx.Tx, error) {
	limited, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	err := b.remind(limited, b.conn.Conn())
	var tx pgx.Tx
	if err == nil {
		tx, err = b.conn.BeginTx(limited, b.options)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, ErrPoolSilent
	}
	return tx, err
}

// BeginningOn begins a transaction on a connection, in the time that a step may wait.
func (s *Steps) BeginningOn(conn *pgxpool.Conn, options pgx.TxOptions, waiting *PoolWait) beginning {
	return beginning{s.Remind, conn, options, waiting.limit}
}
