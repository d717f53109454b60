package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
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
	var own bool // it was a statement of the engine's that was refused
	for range callsMax {
		r, own, err = s.recordInTx(ctx, record, fn)
		if forgotten(err) {
			s.forgetting.note(ctx, err)
		}
		if !errors.Is(err, persistence.ErrConflict) && !rolledBack(err) {
			break
		}
	}
	switch {
	case errors.Is(err, errRowsLost), placeTaken(err): // each time
		return persistence.Recorded{}, meddledError{}
	case own && errors.Is(err, persistence.ErrConflict):
		return persistence.Recorded{}, refusedEachTime(err)
	case stalePlan(err): // on each connection that came
		return persistence.Recorded{}, fmt.Errorf("%w: %s", persistence.ErrTxBroken, err.Error())
	case err == nil:
		r.remember()
		return r.out, nil
	case errors.Is(err, errNotMoved):
		return r.out, nil
	case errors.Is(err, errRunLocked):
		return persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: lifecycle.Busy}}}, nil
	case r != nil && errors.Is(err, persistence.ErrBadRow):
		return s.recordRefused(ctx, r, err)
	}
	return persistence.Recorded{}, err
}

// rolledBack reports whether an error of a step function is the database's
// wish that its transaction be made again, or of a statement that was prepared
// before its table was changed or the session reset.
func rolledBack(err error) bool {
	return hasCode(err, "40001") || hasCode(err, "40P01") || hasCode(err, codeNoStatement) || stalePlan(err)
}

// recordInTx makes the transaction once, and reports whether it failed with a statement
// of the engine's. An error of fn is returned as it is, without a recording.
func (s *Store) recordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (r *recording, own bool, err error) {
	waiting := s.patience.wait()
	defer waiting.end()
	conn, err := s.borrowFor(ctx, record.Task, waiting)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release()
	defer wire.Borrow(conn.Conn().PgConn().Conn(), vanished(record.TxLimit))()
	defer func() {
		if forgotten(err) {
			_ = conn.Conn().Close(ctx) // the pool makes another one
		}
	}()
	began := false            // the transaction; own: the engine's part of it
	var failed, spoiled error // fn, or its transaction
	begin := pgx.TxOptions{BeginQuery: s.beginStep(&record)}
	err = pgx.BeginFunc(ctx, beginning{s.remind, conn, begin, waiting.limit}, func(tx pgx.Tx) error {
		began = true
		waiting.got()
		var transition persistence.Transition
		if transition, failed = s.callStep(ctx, tx, record.Pod, fn); failed != nil {
			return failed
		}
		if spoiled = usable(tx); spoiled != nil {
			return spoiled
		}
		record.Transitions = []persistence.Transition{transition}
		r = newRecording(s, record)
		defer ownTypes(tx.Conn())()
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
		if errors.Is(err, errPoolSilent) {
			waiting.gaveUp()
		}
		return nil, false, notBegun(err)
	case errors.Is(failed, persistence.ErrTxEnded):
		return nil, false, failed
	case failed != nil && ctx.Err() == nil && conn.Conn().IsClosed() && cut(failed):
		return nil, false, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil && ctx.Err() != nil && conn.Conn().IsClosed() && s.unheard(ctx, conn.Conn().PgConn().PID()):
		return nil, false, fmt.Errorf("%w: the server waited for a statement, and the step for its answer", persistence.ErrTxBroken)
	case failed != nil && exhausted(failed):
		return nil, false, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil:
		return nil, false, failed
	case spoiled != nil:
		return nil, false, spoiled
	}
	if own {
		if hasCode(err, codeLockNotAvailable) {
			s.findLockedOf(ctx, r.record.Transitions[0].Task)
		}
		return r, true, r.ownRefused(err)
	}
	return r, false, stepRefused(err)
}

// It is not the step's fault that others hold every connection, or that the
// server does not answer on one.
var (
	errPoolEmpty = persistence.Plain(fmt.Errorf("%w: the pool that was given to the engine had no connection in time:"+
		" give back what step functions and others take from it, or make it larger", persistence.ErrTxNotBegun))
	errPoolSilent = persistence.Plain(fmt.Errorf("%w: no answer came in time on a connection of the pool that was given to the engine", persistence.ErrTxNotBegun))
)

// vanishedMin is how long the server may say nothing under a step, at least.
const vanishedMin = 3 * time.Second

// vanished is after how long a server that says nothing under a step is taken for
// gone: so early that the step's time is not over, and so late that a lock which
// it waits for, with something sent that is not received, is not taken for that.
func vanished(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit*2/3, vanishedMin)
}

// errRunLocked is why no transaction is begun for a step: it would be for nothing.
var errRunLocked = errors.New("the run is locked by another session, or in quarantine")

// borrowFor takes a connection of the user's pool for a step, unless its run is
// locked or in quarantine: by then, or once it has waited for one.
func (s *Store) borrowFor(ctx context.Context, task workflow.TaskID, waiting *poolWait) (*pgxpool.Conn, error) {
	if s.isLocked(ctx, task) {
		return nil, errRunLocked
	}
	conn, err := s.borrow(ctx, waiting)
	if err == nil && s.isLocked(ctx, task) {
		conn.Release()
		return nil, errRunLocked
	}
	return conn, err
}

// borrow takes a connection of the user's pool. A hook of that pool that panics is
// not the step's fault.
func (s *Store) borrow(ctx context.Context, waiting *poolWait) (conn *pgxpool.Conn, err error) {
	limited, cancel := context.WithTimeout(ctx, waiting.limit)
	defer cancel()
	defer func() {
		if broken := recover(); broken != nil {
			conn, err = nil, notBegun(fmt.Errorf("a hook of the embedder's pool panicked: %s", panics.Text(broken)))
		}
	}()
	conn, err = s.user.Acquire(limited)
	switch {
	case err == nil:
		if err = s.admit(ctx, conn, waiting); err != nil {
			return nil, err
		}
		return conn, nil
	case limited.Err() == nil, ctx.Err() != nil:
		return nil, notBegun(err)
	}
	waiting.gaveUp()
	if stat := s.user.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return nil, errPoolSilent
	}
	return nil, errPoolEmpty
}

// admit gives a connection back that is not written to, or on which the server does not answer.
func (s *Store) admit(ctx context.Context, conn *pgxpool.Conn, waiting *poolWait) error {
	limited, cancel := context.WithTimeout(ctx, waiting.limit)
	defer cancel()
	err := s.lineage.Admit(limited, conn.Conn().PgConn())
	if err == nil {
		return nil
	}
	var refused wire.RefusedError
	if errors.As(err, &refused) {
		_ = conn.Conn().Close(limited) // the pool makes another one
	}
	conn.Release()
	if limited.Err() != nil && ctx.Err() == nil {
		waiting.gaveUp()
		return errPoolSilent
	}
	return notBegun(err)
}

// unheardMax bounds the question what became of a connection.
const unheardMax = 2 * time.Second

// unheard reports whether a step whose time was up in the middle of a statement
// waited for a server that waits for the step: nothing passes between them, though
// something there may acknowledge all that is sent. A pod that cannot ask has lost
// the server, too. A statement that is at work, or was until it was canceled just
// now, is the step's own; so it is if the session has gone.
func (s *Store) unheard(ctx context.Context, pid uint32) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unheardMax)
	defer cancel()
	text, args := s.statements.bind("find_idle", named{"pid": int64(pid)})
	var idle bool
	err := s.pool.QueryRow(ctx, text, args...).Scan(&idle)
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
		return nil, errPoolSilent
	}
	return tx, err
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
		if err := f.inTx(ctx, tx); err != nil {
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
		d, err := r.decide(ctx, tx, rest)
		if err != nil {
			return err
		}
		r.apply(d)
	}
	if r.reload {
		var err error
		if r.out.Grants, err = r.s.loadGrants(ctx, tx, r.record.Pod, r.record.Claim, persistence.InlinePayloadMax); err != nil {
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
		if other := again.blame(ctx, 0, again.slow, cause); other != nil {
			return persistence.Recorded{}, fmt.Errorf("%w: %s", persistence.ErrUnavailable, other.Error())
		}
	}
	again.fail(0, cause)
	if err := again.all(ctx); err != nil {
		return persistence.Recorded{}, fmt.Errorf("record a refused attempt: %w", err)
	}
	return again.out, nil
}
