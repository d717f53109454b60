package steptx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Errors of what a step function does to its transaction.
var (
	ErrTxNotYours = errors.New("the engine commits this transaction, with the completion of the step, or rolls it back")
	errTxAborted  = errors.New("a statement of the step function failed in its transaction, so nothing of it can be kept")
	errTxBusy     = errors.New("the step function returned before it had read all rows of a query: close them")
	ErrTxRole     = errors.New("the step function changed its role to one that may not write the engine's tables: set it back before the function returns")
	ErrTxReadOnly = errors.New("the step function made its transaction one that only reads, so that its completion cannot be stored in it")
	ErrNotMoved   = errors.New("the transition was not recorded")
)

// OwnedTx is a transaction that a step function may use but not end.
// Savepoints are its own.
type OwnedTx struct{ pgx.Tx }

// Commit refuses.
func (OwnedTx) Commit(context.Context) error { return ErrTxNotYours }

// Rollback refuses.
func (OwnedTx) Rollback(context.Context) error { return ErrTxNotYours }

// BeginStep is the statement that begins the transaction of a step. It marks it
// with the role: one that the step function begins after it has ended this one
// has no mark. It bounds how long the session may be idle, and holds a lock that
// tells the leader which pod it belongs to.
func (s *Steps) BeginStep(record *persistence.Record) string {
	text := "begin isolation level read committed read write; select pg_catalog.set_config('troupe.step', current_user::pg_catalog.text, true)," +
		" pg_catalog.pg_advisory_xact_lock_shared(" + strconv.FormatInt(s.stepKey(record.Pod), 10) + ")"
	if limit := min(record.TxLimit.Milliseconds(), math.MaxInt32); limit > 0 {
		text += "; set local idle_in_transaction_session_timeout = " + strconv.FormatInt(limit, 10)
	}
	return text
}

// stepKey is the key of the lock that transactions of the steps of a pod hold.
func (s *Steps) stepKey(pod int64) int64 { return s.LockKey("step", strconv.FormatInt(pod, 10)) }

// EndSteps ends the sessions in which steps of dead pods have transactions open:
// a pod that froze, or that the network cut off, leaves its locks behind, and the
// next attempts wait for them. Nothing of theirs could be recorded any more.
func (s *Steps) EndSteps(ctx context.Context, pods []int64) error {
	if len(pods) == 0 {
		return nil
	}
	keys := make([]int64, len(pods))
	for i, pod := range pods {
		keys[i] = s.stepKey(pod)
	}
	return s.Exec(ctx, s.Conns, "end_steps", pgsql.Named{"keys": keys})
}

// Usable says what a step function did to its transaction.
func Usable(tx pgx.Tx) error {
	conn := tx.Conn().PgConn()
	switch {
	case conn.TxStatus() == 'I':
		return persistence.ErrTxEnded
	case conn.IsClosed():
		return persistence.ErrTxBroken
	case conn.IsBusy():
		return errTxBusy
	case conn.TxStatus() == 'E':
		return errTxAborted
	}
	return nil
}

// CallStep calls a step function. Its error is ErrTxEnded if it has ended its transaction,
// and so is the panic that then takes the place of its own, or of its Goexit.
func (s *Steps) CallStep(
	ctx context.Context, tx pgx.Tx, pod int64, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (_ persistence.Transition, err error) {
	returned := false
	defer func() {
		if !returned && s.ended(ctx, tx, pod) {
			panic(persistence.ErrTxEnded)
		}
	}()
	transition, err := fn(ctx, OwnedTx{tx})
	returned = true
	if err != nil && s.ended(ctx, tx, pod) {
		err = fmt.Errorf("%w: %s", persistence.ErrTxEnded, lifecycle.CleanText(err.Error()))
	}
	return transition, err
}

// ended reports whether a step function that has failed has ended its transaction. The
// session was outside a transaction when it was last heard of, or is in another one: no
// server and no pooler leaves it so. A session in which a statement failed cannot be asked.
func (s *Steps) ended(ctx context.Context, tx pgx.Tx, pod int64) bool {
	conn := tx.Conn().PgConn()
	switch {
	case conn.TxStatus() == 'I':
		return true
	case conn.IsClosed() || conn.IsBusy() || conn.TxStatus() == 'E' || ctx.Err() != nil:
		return false
	}
	defer OwnTypes(tx.Conn())()
	same, err := s.SameTx(ctx, tx, pod)
	return err == nil && !same
}

// SameTx reports whether a transaction is the one that was begun for a step of
// the pod.
func (s *Steps) SameTx(ctx context.Context, tx pgx.Tx, pod int64) (same bool, err error) {
	b := s.NewBatch()
	b.Add("check_step_lock", pgsql.Named{"key": s.stepKey(pod)}).QueryRow(func(row pgx.Row) error { return row.Scan(&same) })
	return same, pgsql.Send(ctx, tx, b)
}

// NotBegun translates why the transaction of a step could not be begun: never by
// the fault of the step.
func NotBegun(err error) error {
	return fmt.Errorf("%w: %w", persistence.ErrTxNotBegun, pgerr.Translate(err))
}

// RefusedEachTime is the error of a statement of the engine's that is refused whatever the
// step does: it is handed back, uncharged.
func RefusedEachTime(err error) error {
	return fmt.Errorf("%w: a statement of the engine was refused, as by a trigger that was put on its tables: take that off, troupe doctor names it: %s",
		persistence.ErrUnavailable, wherein(err))
}

// wherein is what an error says, with where in whose function that was.
func wherein(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Where == "" {
		return lifecycle.CleanText(err.Error())
	}
	return lifecycle.CleanText(pg.Error() + ", in " + pg.Where)
}

// StepRefused translates why the transaction of a step whose function has
// returned was refused, by what the function left to its end. Unless that is the
// server's state it is charged like any other error of the step.
func StepRefused(err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, persistence.ErrTxEnded):
		return err
	case !errors.As(err, &pg), Broke(pg), pg.Code == pgerr.CodeTxTimeout: // the function was done in time
		return TxBroken(pgerr.Translate(err), err)
	case Forgotten(pg):
		return StatementsLost(err)
	case pg.Code == pgerr.CodeReadOnly && pg.Where == "":
		return ErrTxReadOnly
	case pg.Code == pgerr.CodeQueryCanceled: // by hand, or by a statement_timeout that the engine's statements met
		return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
	}
	switch pgerr.Class(pg.Code) {
	case pgerr.ClassRollback, pgerr.ClassConnection, pgerr.ClassSystem:
		return pgerr.Translate(err)
	}
	if pgerr.IDsSpent(pg) || pgerr.FileRefused(pg) || pgerr.LacksResources(pg) {
		return pgerr.Translate(err)
	}
	return fmt.Errorf("at the end of the step's transaction: %w", err)
}

// Broke reports whether the server has ended the session, but for a transaction_timeout:
// that is the step's own, as a statement_timeout is.
func Broke(pg *pgconn.PgError) bool {
	return pg.Code == pgerr.CodeIdleInTx || pgerr.Class(pg.Code) == pgerr.ClassOperator && pg.Code != pgerr.CodeQueryCanceled
}

// Exhausted reports whether a statement of the step was refused by the state of
// the server, or by its operator: it has no room, or fails, or the
// statement was canceled.
func Exhausted(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pgerr.LacksResources(pg) || pgerr.Class(pg.Code) == pgerr.ClassSystem || pgerr.IDsSpent(pg) || pgerr.FileRefused(pg) || canceled(pg))
}

// canceled reports whether a statement was canceled by hand (pg_cancel_backend). A
// timeout that the step or the role has set has the same code, and is the step's
// own: only the text tells, in a server that speaks English.
func canceled(pg *pgconn.PgError) bool {
	return pg.Code == pgerr.CodeQueryCanceled && strings.Contains(pg.Message, "user request")
}

// TxBroken is the error of a step whose transaction the server ended.
func TxBroken(answered, err error) error {
	if errors.Is(answered, persistence.ErrUnavailable) {
		return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
	}
	return answered
}

// Cut reports whether what a step function returns may come of a connection that
// Broke under it: not what the server said of a statement, and not a deadline of
// the function's own, which closes the connection as well.
func Cut(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code != pgerr.CodeTxTimeout && errors.Is(pgerr.Translate(pg), persistence.ErrUnavailable)
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
