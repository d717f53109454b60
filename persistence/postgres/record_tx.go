package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
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
		if steptx.Forgotten(err) {
			s.Forgetting.Note(ctx, err)
		}
		if !errors.Is(err, persistence.ErrConflict) && !rolledBack(err) {
			break
		}
	}
	switch {
	case errors.Is(err, pgerr.ErrRowsLost), pgerr.PlaceTaken(err): // each time
		return persistence.Recorded{}, pgerr.MeddledError{}
	case own && errors.Is(err, persistence.ErrConflict):
		return persistence.Recorded{}, steptx.RefusedEachTime(err)
	case pgerr.StalePlan(err): // on each connection that came
		return persistence.Recorded{}, fmt.Errorf("%w: %s", persistence.ErrTxBroken, err.Error())
	case err == nil:
		r.remember()
		return r.out, nil
	case errors.Is(err, steptx.ErrNotMoved):
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
	return pgerr.HasCode(err, "40001") || pgerr.HasCode(err, "40P01") || pgerr.HasCode(err, pgerr.CodeNoStatement) || pgerr.StalePlan(err)
}

// recordInTx makes the transaction once, and reports whether it failed with a statement
// of the engine's. An error of fn is returned as it is, without a recording.
func (s *Store) recordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (r *recording, own bool, err error) {
	waiting := s.Patience.Wait()
	defer waiting.End()
	conn, err := s.borrowFor(ctx, record.Task, waiting)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release()
	defer wire.Borrow(conn.Conn().PgConn().Conn(), steptx.Vanished(record.TxLimit))()
	defer func() {
		if steptx.Forgotten(err) {
			_ = conn.Conn().Close(ctx) // the pool makes another one
		}
	}()
	began := false            // the transaction; own: the engine's part of it
	var failed, spoiled error // fn, or its transaction
	begin := pgx.TxOptions{BeginQuery: s.BeginStep(&record)}
	err = pgx.BeginFunc(ctx, s.BeginningOn(conn, begin, waiting), func(tx pgx.Tx) error {
		began = true
		waiting.Got()
		var transition persistence.Transition
		if transition, failed = s.CallStep(ctx, tx, record.Pod, fn); failed != nil {
			return failed
		}
		if spoiled = steptx.Usable(tx); spoiled != nil {
			return spoiled
		}
		record.Transitions = []persistence.Transition{transition}
		r = newRecording(s, record)
		defer steptx.OwnTypes(tx.Conn())()
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
		if errors.Is(err, steptx.ErrPoolSilent) {
			waiting.GaveUp()
		}
		return nil, false, steptx.NotBegun(err)
	case errors.Is(failed, persistence.ErrTxEnded):
		return nil, false, failed
	case failed != nil && ctx.Err() == nil && conn.Conn().IsClosed() && steptx.Cut(failed):
		return nil, false, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil && ctx.Err() != nil && conn.Conn().IsClosed() && s.Unheard(ctx, conn.Conn().PgConn().PID()):
		return nil, false, fmt.Errorf("%w: the server waited for a statement, and the step for its answer", persistence.ErrTxBroken)
	case failed != nil && steptx.Exhausted(failed):
		return nil, false, fmt.Errorf("%w: %s", persistence.ErrTxBroken, lifecycle.CleanText(failed.Error()))
	case failed != nil:
		return nil, false, failed
	case spoiled != nil:
		return nil, false, spoiled
	}
	if own {
		if pgerr.HasCode(err, pgerr.CodeLockNotAvailable) {
			s.quarantine.FindLockedOf(ctx, r.record.Transitions[0].Task)
		}
		return r, true, r.ownRefused(err)
	}
	return r, false, steptx.StepRefused(err)
}

// errRunLocked is why no transaction is begun for a step: it would be for nothing.
var errRunLocked = errors.New("the run is locked by another session, or in quarantine")

// borrowFor takes a connection of the user's pool for a step, unless its run is
// locked or in quarantine: by then, or once it has waited for one.
func (s *Store) borrowFor(ctx context.Context, task workflow.TaskID, waiting *steptx.PoolWait) (*pgxpool.Conn, error) {
	if s.quarantine.IsLocked(ctx, task) {
		return nil, errRunLocked
	}
	conn, err := s.Borrow(ctx, waiting)
	if err == nil && s.quarantine.IsLocked(ctx, task) {
		conn.Release()
		return nil, errRunLocked
	}
	return conn, err
}

// own adds the engine's statements to the user's transaction. What is not
// recorded now ends it: a repeated transition leaves no effects.
func (r *recording) own(ctx context.Context, tx pgx.Tx) error {
	if cause := r.refuseInstants(0); cause != nil {
		return cause
	}
	if err := r.knowChildren(ctx); err != nil {
		return err
	}
	fast, rest := r.split()
	if len(fast) > 0 {
		f := r.newFast(fast)
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
		if cause := r.causes[0]; cause != nil {
			return cause
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
		return steptx.ErrNotMoved
	}
	return nil
}

// recordRefused fails the attempt whose values the database refuses. What its
// step function wrote was rolled back.
func (s *Store) recordRefused(ctx context.Context, r *recording, cause error) (persistence.Recorded, error) {
	again := newRecording(s, r.record)
	again.begins = r.begins
	if again.refuseInstants(0) == nil && r.causes[0] == nil { // it was not refused before it was sent
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
	b := r.s.NewBatch()
	b.Add("check_mark", pgsql.Named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&mark, &role, &session) })
	b.Queue("set constraints all immediate")
	b.Add("set_local", pgsql.Named{"names": names, "values": values})
	if err := pgsql.Send(ctx, tx, b); err != nil {
		return err
	}
	if mark == "" {
		same, err := r.s.SameTx(ctx, tx, r.record.Pod)
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

// ownRefused translates why a statement of the engine was refused in the
// transaction of a step, which has done its part.
func (r *recording) ownRefused(err error) error {
	var pg *pgconn.PgError
	answered := pgerr.Translate(err)
	switch {
	case errors.Is(err, steptx.ErrNotMoved):
		return err
	case !errors.As(err, &pg), steptx.Broke(pg), pg.Code == pgerr.CodeTxTimeout:
		return steptx.TxBroken(answered, err)
	case steptx.Forgotten(pg):
		return steptx.StatementsLost(err)
	case pg.Code == pgerr.CodeReadOnly && pg.Where != "": // in a function of a trigger that is not the engine's
		return steptx.RefusedEachTime(err)
	case pg.Code == pgerr.CodeReadOnly: // it was begun to write, and no server turns into a standby
		return steptx.ErrTxReadOnly
	case pg.Code == pgerr.CodeNoPrivilege && r.otherRole && !pgerr.FileRefused(pg):
		return steptx.ErrTxRole
	case pg.Code == pgerr.CodeLockNotAvailable || pg.Code == pgerr.CodeQueryCanceled:
		return fmt.Errorf("%w: another session holds a lock for too long, or canceled a statement of the engine: %w", persistence.ErrUnavailable, err)
	case !pgerr.Translated(answered):
		return fmt.Errorf("%w: a statement of the engine was refused: %w", persistence.ErrUnavailable, err)
	}
	return answered
}
