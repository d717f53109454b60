package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// callsMax bounds how often RecordInTx calls a step function, because the
// database rolled its transaction back.
const callsMax = 3

// Errors of what a step function does to its transaction.
var (
	errTxNotYours = errors.New("the engine commits this transaction, with the completion of the step, or rolls it back")
	errTxEnded    = errors.New("the step function ended the transaction that its completion belongs to")
	errTxAborted  = errors.New("a statement of the step function failed in its transaction, so nothing of it can be kept")
	errTxBusy     = errors.New("the step function returned before it had read all rows of a query: close them")
	errTxReadOnly = errors.New("the step function made its transaction one that only reads, so that its completion cannot be stored in it")
	errNotMoved   = errors.New("the transition was not recorded")
)

// ownedTx is a transaction that a step function may use but not end.
// Savepoints are its own.
type ownedTx struct{ pgx.Tx }

// Commit refuses.
func (ownedTx) Commit(context.Context) error { return errTxNotYours }

// Rollback refuses.
func (ownedTx) Rollback(context.Context) error { return errTxNotYours }

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
	var failed, spoiled, refused error // fn, its transaction, or a statement of the engine
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: beginStep(record.TxLimit)}, func(tx pgx.Tx) error {
		var transition persistence.Transition
		if transition, failed = fn(ctx, ownedTx{tx}); failed != nil {
			return failed
		}
		if spoiled = usable(tx); spoiled != nil {
			return spoiled
		}
		record.Transitions = []persistence.Transition{transition}
		r = newRecording(s, record)
		refused = r.own(ctx, tx)
		return refused
	})
	switch {
	case failed != nil && ctx.Err() == nil && conn.Conn().IsClosed() && cut(failed):
		return nil, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil:
		return nil, failed
	case spoiled != nil:
		return nil, spoiled
	}
	return r, stepRefused(s.mendCounters(ctx, err), refused != nil)
}

// stepRefused translates why the transaction of a step whose function has
// returned was not kept: at a statement of the engine, or at the commit.
func stepRefused(err error, engine bool) error {
	var pg *pgconn.PgError
	answered := translate(err)
	switch {
	case err == nil, errors.Is(err, errNotMoved), errors.Is(err, errTxEnded):
		return err
	case !errors.As(err, &pg):
		if errors.Is(answered, persistence.ErrUnavailable) {
			return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
		}
		return answered
	case pg.Code == codeIdleInTx, pg.Code[:2] == classOperator && pg.Code != codeQueryCanceled:
		return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
	case pg.Code == codeReadOnly: // it was begun to write, and no server turns into a standby
		return errTxReadOnly
	case !engine && pg.Code[:2] == classIntegrity: // a constraint of the user's, looked at with the commit
		return fmt.Errorf("commit the step's transaction: %w", err)
	case engine && (pg.Code == codeLockNotAvailable || pg.Code == codeQueryCanceled): // the step has done its part
		return fmt.Errorf("%w: somebody holds a lock for too long, or canceled a statement of the engine: %w", persistence.ErrUnavailable, err)
	case engine && !translated(answered):
		return fmt.Errorf("%w: a statement of the engine was refused: %w", persistence.ErrUnavailable, err)
	}
	return answered
}

// beginStep is the statement that begins the transaction of a step, and marks
// it: one that the step function begins after it has ended this one has no mark.
func beginStep(limit time.Duration) string {
	text := "begin isolation level read committed read write; set local troupe.step = 'on'"
	if limit > 0 {
		text += "; set local idle_in_transaction_session_timeout = " + strconv.FormatInt(limit.Milliseconds(), 10)
	}
	return text
}

// cut reports whether what a step function returns may come of a connection that
// broke under it: not what the server said of a statement, and not a deadline of
// the function's own, which closes the connection as well.
func cut(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return errors.Is(translate(pg), persistence.ErrUnavailable)
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
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

// usable says what a step function did to its transaction.
func usable(tx pgx.Tx) error {
	conn := tx.Conn().PgConn()
	switch {
	case conn.IsClosed():
		return persistence.ErrTxBroken
	case conn.IsBusy():
		return errTxBusy
	case conn.TxStatus() == 'T':
		return nil
	case conn.TxStatus() == 'E':
		return errTxAborted
	}
	return errTxEnded
}

// own adds the engine's statements to the user's transaction. What is not
// recorded now ends it: a repeated transition leaves no effects.
func (r *recording) own(ctx context.Context, tx pgx.Tx) error {
	if cause := r.refuseInstants(0); cause != nil {
		return cause
	}
	b := r.s.newBatch()
	names, values := []string{}, []string{}
	for name, value := range statementSettings() {
		names, values = append(names, name), append(values, value)
	}
	marked := false
	b.add("check_mark", named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&marked) })
	b.add("set_local", named{"names": names, "values": values})
	if err := send(ctx, tx, b); err != nil {
		return err
	}
	if !marked {
		return errTxEnded
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
	store := again.slow
	if fast, _ := again.split(); len(fast) > 0 {
		store = again.fast
	}
	if again.refuseInstants(0) == nil && again.blameless(ctx, 0, lockWaiting, store) {
		return persistence.Recorded{}, refusesAnything(cause)
	}
	again.fail(0, cause)
	if err := again.all(ctx); err != nil {
		return persistence.Recorded{}, fmt.Errorf("record a refused attempt: %w", err)
	}
	return again.out, nil
}
