package postgres

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
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
)

// Errors of what a step function does to its transaction.
var (
	errTxNotYours = errors.New("the engine commits this transaction, with the completion of the step, or rolls it back")
	errTxAborted  = errors.New("a statement of the step function failed in its transaction, so nothing of it can be kept")
	errTxBusy     = errors.New("the step function returned before it had read all rows of a query: close them")
	errTxRole     = errors.New("the step function changed its role to one that may not write the engine's tables: set it back before the function returns")
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

// beginStep is the statement that begins the transaction of a step. It marks it
// with the role: one that the step function begins after it has ended this one
// has no mark. It bounds how long the session may be idle, and holds a lock that
// tells the leader which pod it belongs to.
func (s *Store) beginStep(record *persistence.Record) string {
	text := "begin isolation level read committed read write; select pg_catalog.set_config('troupe.step', current_user::pg_catalog.text, true)," +
		" pg_catalog.pg_advisory_xact_lock_shared(" + strconv.FormatInt(s.stepKey(record.Pod), 10) + ")"
	if limit := min(record.TxLimit.Milliseconds(), math.MaxInt32); limit > 0 {
		text += "; set local idle_in_transaction_session_timeout = " + strconv.FormatInt(limit, 10)
	}
	return text
}

// stepKey is the key of the lock that transactions of the steps of a pod hold.
func (s *Store) stepKey(pod int64) int64 { return s.lockKey("step", strconv.FormatInt(pod, 10)) }

// endSteps ends the sessions in which steps of dead pods have transactions open:
// a pod that froze, or that the network cut off, leaves its locks behind, and the
// next attempts wait for them. Nothing of theirs could be recorded any more.
func (s *Store) endSteps(ctx context.Context, pods []int64) error {
	if len(pods) == 0 {
		return nil
	}
	keys := make([]int64, len(pods))
	for i, pod := range pods {
		keys[i] = s.stepKey(pod)
	}
	return s.exec(ctx, s.pool, "end_steps", named{"keys": keys})
}

// usable says what a step function did to its transaction.
func usable(tx pgx.Tx) error {
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

// callStep calls a step function. Its error is ErrTxEnded if it has ended its transaction,
// and so is the panic that then takes the place of its own, or of its Goexit.
func (s *Store) callStep(
	ctx context.Context, tx pgx.Tx, pod int64, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (_ persistence.Transition, err error) {
	returned := false
	defer func() {
		if !returned && s.ended(ctx, tx, pod) {
			panic(persistence.ErrTxEnded)
		}
	}()
	transition, err := fn(ctx, ownedTx{tx})
	returned = true
	if err != nil && s.ended(ctx, tx, pod) {
		err = fmt.Errorf("%w: %s", persistence.ErrTxEnded, lifecycle.CleanText(err.Error()))
	}
	return transition, err
}

// ended reports whether a step function that has failed has ended its transaction. The
// session was outside a transaction when it was last heard of, or is in another one: no
// server and no pooler leaves it so. A session in which a statement failed cannot be asked.
func (s *Store) ended(ctx context.Context, tx pgx.Tx, pod int64) bool {
	conn := tx.Conn().PgConn()
	switch {
	case conn.TxStatus() == 'I':
		return true
	case conn.IsClosed() || conn.IsBusy() || conn.TxStatus() == 'E' || ctx.Err() != nil:
		return false
	}
	defer ownTypes(tx.Conn())()
	same, err := s.sameTx(ctx, tx, pod)
	return err == nil && !same
}

// sameTx reports whether a transaction is the one that was begun for a step of
// the pod.
func (s *Store) sameTx(ctx context.Context, tx pgx.Tx, pod int64) (same bool, err error) {
	b := s.newBatch()
	b.add("check_step_lock", named{"key": s.stepKey(pod)}).QueryRow(func(row pgx.Row) error { return row.Scan(&same) })
	return same, send(ctx, tx, b)
}

// settle looks at what the step has deferred to the end of its transaction, under
// its own settings; then come those of the engine.
func (r *recording) settle(ctx context.Context, tx pgx.Tx) error {
	// Only the commit follows: a frozen process keeps no locks of the engine's, and what is
	// answered survives a crash.
	names, values := []string{"idle_in_transaction_session_timeout", "synchronous_commit"}, []string{sessions.IdleInTx, "on"}
	for name, value := range sessions.Settings() {
		names, values = append(names, name), append(values, value)
	}
	var mark, role, session string
	b := r.s.newBatch()
	b.add("check_mark", named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&mark, &role, &session) })
	b.Queue("set constraints all immediate")
	b.add("set_local", named{"names": names, "values": values})
	if err := send(ctx, tx, b); err != nil {
		return err
	}
	if mark == "" {
		same, err := r.s.sameTx(ctx, tx, r.record.Pod)
		if err != nil {
			return err
		}
		if !same {
			return persistence.ErrTxEnded
		}
		mark = session // what it was begun with is not known
	}
	r.otherRole = mark != role
	return nil
}

// notBegun translates why the transaction of a step could not be begun: never by
// the fault of the step.
func notBegun(err error) error {
	return fmt.Errorf("%w: %w", persistence.ErrTxNotBegun, translate(err))
}

// ownRefused translates why a statement of the engine was refused in the
// transaction of a step, which has done its part.
func (r *recording) ownRefused(err error) error {
	var pg *pgconn.PgError
	answered := translate(err)
	switch {
	case errors.Is(err, errNotMoved):
		return err
	case !errors.As(err, &pg), broke(pg), pg.Code == codeTxTimeout:
		return txBroken(answered, err)
	case forgotten(pg):
		return statementsLost(err)
	case pg.Code == codeReadOnly && pg.Where != "": // in a function of a trigger that is not the engine's
		return refusedEachTime(err)
	case pg.Code == codeReadOnly: // it was begun to write, and no server turns into a standby
		return errTxReadOnly
	case pg.Code == codeNoPrivilege && r.otherRole && !fileRefused(pg):
		return errTxRole
	case pg.Code == codeLockNotAvailable || pg.Code == codeQueryCanceled:
		return fmt.Errorf("%w: another session holds a lock for too long, or canceled a statement of the engine: %w", persistence.ErrUnavailable, err)
	case !translated(answered):
		return fmt.Errorf("%w: a statement of the engine was refused: %w", persistence.ErrUnavailable, err)
	}
	return answered
}

// refusedEachTime is the error of a statement of the engine's that is refused whatever the
// step does: it is handed back, uncharged.
func refusedEachTime(err error) error {
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

// stepRefused translates why the transaction of a step whose function has
// returned was refused, by what the function left to its end. Unless that is the
// server's state it is charged like any other error of the step.
func stepRefused(err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, persistence.ErrTxEnded):
		return err
	case !errors.As(err, &pg), broke(pg), pg.Code == codeTxTimeout: // the function was done in time
		return txBroken(translate(err), err)
	case forgotten(pg):
		return statementsLost(err)
	case pg.Code == codeReadOnly && pg.Where == "":
		return errTxReadOnly
	case pg.Code == codeQueryCanceled: // by hand, or by a statement_timeout that the engine's statements met
		return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
	}
	switch class(pg.Code) {
	case classRollback, classConnection, classSystem:
		return translate(err)
	}
	if idsSpent(pg) || fileRefused(pg) || lacksResources(pg) {
		return translate(err)
	}
	return fmt.Errorf("at the end of the step's transaction: %w", err)
}

// broke reports whether the server has ended the session, but for a transaction_timeout:
// that is the step's own, as a statement_timeout is.
func broke(pg *pgconn.PgError) bool {
	return pg.Code == codeIdleInTx || class(pg.Code) == classOperator && pg.Code != codeQueryCanceled
}

// exhausted reports whether a statement of the step was refused by the state of
// the server, or by its operator: it has no room, or fails, or the
// statement was canceled.
func exhausted(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (lacksResources(pg) || class(pg.Code) == classSystem || idsSpent(pg) || fileRefused(pg) || canceled(pg))
}

// canceled reports whether a statement was canceled by hand (pg_cancel_backend). A
// timeout that the step or the role has set has the same code, and is the step's
// own: only the text tells, in a server that speaks English.
func canceled(pg *pgconn.PgError) bool {
	return pg.Code == codeQueryCanceled && strings.Contains(pg.Message, "user request")
}

func txBroken(answered, err error) error {
	if errors.Is(answered, persistence.ErrUnavailable) {
		return fmt.Errorf("%w: %w", persistence.ErrTxBroken, err)
	}
	return answered
}

// cut reports whether what a step function returns may come of a connection that
// broke under it: not what the server said of a statement, and not a deadline of
// the function's own, which closes the connection as well.
func cut(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code != codeTxTimeout && errors.Is(translate(pg), persistence.ErrUnavailable)
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
