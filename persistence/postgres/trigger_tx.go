package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/workflow"
)

// triggerSavepoint is the savepoint behind which TriggerInTx stores a run.
const triggerSavepoint = "troupe_trigger"

// What is wrong with a transaction that a caller passes.
var (
	errForeignTx     = errors.New("want a pgx.Tx: pass the one that pgx's Begin returned")
	errTxDone        = errors.New("the transaction has ended: trigger before Commit")
	errTxRowsOpen    = errors.New("rows of a query are still open in the transaction: close them before the trigger")
	errTxReads       = errors.New("the transaction only reads: trigger in one that may write, on the primary")
	errOtherDatabase = errors.New("begin the transaction on the pool that was given to the engine, or on another one to the same database")
)

// untyped says that a connection does not ask the server for the types of
// parameters, without which the store's statements cannot be sent.
func untyped(mode pgx.QueryExecMode) error {
	if mode != pgx.QueryExecModeSimpleProtocol && mode != pgx.QueryExecModeExec {
		return nil
	}
	return fmt.Errorf("the pool has default_query_exec_mode=%s: take cache_describe, which goes through poolers, too, or cache_statement",
		strings.ReplaceAll(mode.String(), " ", "_"))
}

// recoded says that the server takes what a session sends for something else than
// UTF-8, which Go's strings are: names of tenants would not be found again.
func recoded(encoding string) error {
	switch encoding {
	case "UTF8", "SQL_ASCII", "": // nothing is changed, or a proxy does not say
		return nil
	}
	return fmt.Errorf("the session has client_encoding = %s, but Go's strings are UTF-8: reset it for the role and the database,"+
		" or give the address client_encoding=UTF8", encoding)
}

// TriggerInTx implements persistence.Intake. tx is a pgx.Tx. A trigger that is
// refused leaves the caller's transaction usable: what is stored is behind a
// savepoint.
func (s *Store) TriggerInTx(ctx context.Context, tx any, t persistence.Trigger) (answer persistence.TriggerAnswer, err error) {
	err = s.inTxOf(ctx, tx, func(ctx context.Context, own pgx.Tx) (err error) {
		answer, err = s.triggerInTx(ctx, own, t, s.checkPlace)
		return err
	})
	if err != nil {
		answer = persistence.TriggerAnswer{}
	}
	return answer, err
}

// inTxOf runs do in a transaction that a caller passes, and says what is wrong with that.
func (s *Store) inTxOf(ctx context.Context, tx any, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	own, err := inspectTx(ctx, tx)
	if err != nil {
		return refusedTx(err)
	}
	conn := own.Conn()
	if err := s.PoolLineage.Admit(ctx, conn.PgConn()); err != nil {
		return pgerr.Translate(err)
	}
	if err := s.Remind(ctx, conn); err != nil {
		return pgerr.Translate(err)
	}
	defer steptx.OwnTypes(conn)()
	err = do(ctx, own)
	switch {
	case err == nil:
		return nil
	case pgerr.HasCode(err, pgerr.CodeReadOnly):
		return refusedTx(fmt.Errorf("%w: %w", errTxReads, err))
	case steptx.Forgotten(err):
		s.Forgetting.Note(ctx, err)
		return fmt.Errorf("%w: %s", err, steptx.ForgottenRemedy)
	}
	cause := untyped(conn.Config().DefaultQueryExecMode)
	if cause == nil || errors.Is(err, persistence.ErrConflict) {
		return err
	}
	return refusedTx(cause)
}

// inspectTx returns the transaction that a caller passes, or what is wrong with it as far as
// that shows here.
func inspectTx(ctx context.Context, tx any) (pgx.Tx, error) {
	own, ok := tx.(pgx.Tx)
	if !ok {
		return nil, errForeignTx
	}
	// Nothing is sent. The connection of one that has ended may be in other hands.
	if errors.Is(own.SendBatch(ctx, &pgx.Batch{}).Close(), pgx.ErrTxClosed) {
		return nil, errTxDone
	}
	conn := own.Conn()
	switch {
	case conn == nil:
		return nil, errForeignTx
	case conn.PgConn().IsBusy():
		return nil, errTxRowsOpen
	case conn.PgConn().TxStatus() == 'I': // by a statement of the caller's
		return nil, errTxDone
	}
	return own, recoded(conn.PgConn().ParameterStatus("client_encoding"))
}

// anywhere takes what a transaction of the store's own pool has met.
func anywhere(_ context.Context, _ place, met error) error { return met }

// triggerInTx stores a trigger, unless check returns an error when it is told where the
// transaction leads to and what it has met there.
func (s *Store) triggerInTx(
	ctx context.Context, own pgx.Tx, t persistence.Trigger, check func(context.Context, place, error) error,
) (persistence.TriggerAnswer, error) {
	f := found{runs: map[workflow.RunID]bool{}, keys: map[keyName]keyHolder{}, full: map[string]bool{}}
	var known registry.Names
	var now time.Time
	err := s.WithRegistry(ctx, func() (err error) {
		known, now, err = s.examineInTx(ctx, own, &t, &f)
		return check(ctx, f.at, err)
	})
	if err != nil {
		return persistence.TriggerAnswer{}, err
	}
	answer := f.examine(&t, known, newDraft(), newDraft())
	var refused error
	if answer.Result == persistence.Triggered && !f.runs[t.Run] {
		err := pgerr.Translate(s.submit(ctx, own, &t, known, now))
		there := pgerr.HasCode(err, pgerr.CodeUniqueViolation) || errors.Is(err, pgerr.ErrRowsLost)
		if err == nil || !there && !errors.Is(err, persistence.ErrBadRow) {
			return answer, err
		}
		if _, err := own.Exec(ctx, "rollback to savepoint "+triggerSavepoint); err != nil {
			return persistence.TriggerAnswer{}, pgerr.Translate(err)
		}
		if !there {
			return persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}, nil
		}
		refused = err
	}
	if refused != nil || answer.Result == persistence.TenantsFull {
		if err := s.lookInTx(ctx, own, &t, &f); err != nil {
			return persistence.TriggerAnswer{}, err
		}
		answer = f.examine(&t, known, newDraft(), newDraft())
	}
	switch {
	case existing(answer) || f.runs[t.Run]:
		return answer, pgerr.Translate(s.Exec(ctx, own, "confirm_visible", pgsql.Named{}))
	case answer.Result != persistence.Triggered:
		return answer, nil
	case errors.Is(refused, pgerr.ErrRowsLost): // of rows that are new to everybody
		return persistence.TriggerAnswer{}, pgerr.MeddledError{}
	}
	return persistence.TriggerAnswer{}, refused
}

// lookInTx reads whether the run and the key exist in any transaction, a serializable
// one, too: a row was refused, or the run is to be.
func (s *Store) lookInTx(ctx context.Context, tx pgx.Tx, t *persistence.Trigger, f *found) error {
	b := s.NewBatch()
	if t.Key != "" {
		f.queueKeys(b, []keyName{keyOf(t)}, true)
	}
	f.queueRuns(b, pgsql.UUIDs{t.Run}, true)
	return pgerr.Translate(pgsql.Send(ctx, tx, b))
}

// examineInTx resolves what a trigger names, and asks the database about it
// unless it is refused anyway.
func (s *Store) examineInTx(
	ctx context.Context, tx pgx.Tx, t *persistence.Trigger, f *found,
) (known registry.Names, now time.Time, err error) {
	if known, err = s.knowNames(ctx, []persistence.Trigger{*t}); err != nil || refuseTrigger(*t) != nil {
		return known, now, err
	}
	now, err = s.findInTx(ctx, tx, t, known, f)
	return known, now, err
}

// findInTx waits for the key, then reads whether the run and the key exist and
// the tenant has a place, and the clock. In a serializable transaction it reads nothing
// that other transactions write: what exists is found when it is stored again.
func (s *Store) findInTx(
	ctx context.Context, tx pgx.Tx, t *persistence.Trigger, known registry.Names, f *found,
) (now time.Time, err error) {
	b := s.NewBatch()
	var room bool
	s.queueTenant(b, t.Tenant, &room, &f.at)
	s.QueueMatch(b, known)
	if t.Key != "" {
		k := keyOf(t)
		b.Add("wait_key", pgsql.Named{"lock": s.keyLock(k)})
		f.queueKeys(b, []keyName{k}, false)
	}
	f.queueRuns(b, pgsql.UUIDs{t.Run}, false)
	b.Add("read_clock", pgsql.Named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	err = pgerr.Translate(pgsql.Send(ctx, tx, b))
	f.full[t.Tenant] = !room
	return now, err
}

// submit stores a run to be expanded by the pods once the caller commits.
func (s *Store) submit(ctx context.Context, tx pgx.Tx, t *persistence.Trigger, known registry.Names, now time.Time) error {
	b := s.NewBatch()
	b.Queue("savepoint " + triggerSavepoint)
	columns := newRunColumns(1)
	if err := columns.add(t, known.Definitions[t.Definition], known.Queues[t.Queue], 0, false); err != nil {
		return err
	}
	if t.Key != "" {
		b.Add("take_key", pgsql.Named{
			"tenant": t.Tenant, "workflow": t.Workflow, "key": t.Key, "hash": t.InputHash[:], "run": [16]byte(t.Run),
		})
	}
	b.Add("insert_runs", columns.named(now))
	if err := queueSubmission(b, t); err != nil {
		return err
	}
	b.Queue("release savepoint " + triggerSavepoint)
	return pgsql.Send(ctx, tx, b)
}
