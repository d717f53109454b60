// Package pgerr says what an error of the server or of its connection means for a
// caller of the store: whether to try again, to wait, or to give up. It looks at
// SQLSTATE codes and at the place in the server that reported the error.
package pgerr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// ErrRowsLost says that not all rows were written. The locks forbid that any changed, so the
// transaction is rolled back and made again.
var ErrRowsLost = fmt.Errorf("%w: not all rows were written, one changed under its lock", persistence.ErrConflict)

// ErrTrial ends a transaction that was a trial. It passes through Translate.
var ErrTrial = errors.New("a trial, which is rolled back")

// ErrUndecided says that rows of a run which others refer to are not there: they were removed by hand.
var ErrUndecided = errors.New("a decision asks for rows that do not exist")

// ErrLockTimeout says that another session kept a lock for longer than lock_timeout.
var ErrLockTimeout = fmt.Errorf("%w: a lock was not granted in time", persistence.ErrConflict)

// ErrDependents says that a view or a foreign key of the embedder's keeps a table from being dropped.
var ErrDependents = fmt.Errorf("%w: something that is not the engine's depends on a table of history or events, which is not dropped before that is:"+
	" drop it, or have it read run_history or task_events instead; troupe doctor names it", persistence.ErrUnavailable)

// ErrSchemaRefuses says that a row was refused for no fault of its own.
var ErrSchemaRefuses = fmt.Errorf("%w: the schema refuses a row, by a constraint or a trigger that was added to it, or because a partition is missing:"+
	" take it off or put it back", persistence.ErrUnavailable)

// ErrRegistryLost says that the database lacks a definition that this store has read there, or
// that a run names. It may be a standby that was promoted without the last
// transactions, or a restored backup; or the definition was deleted.
var ErrRegistryLost = fmt.Errorf("%w: the database does not know the definition of a workflow that it knew: it lost transactions,"+
	" or its row was deleted: start the program that has the workflow, which registers it again; or the definition is of a later version of the engine: leave the run to pods of that version; or the transaction that triggers is"+
	" of another database; or it is of repeatable read or serializable and began before the workflow was registered: begin it again", persistence.ErrUnavailable)

// MeddledError says that rows are not written, although their locks keep other sessions from
// changing them. Another try would find the same.
type MeddledError struct{}

// Error implements error.
func (MeddledError) Error() string {
	return persistence.ErrUnavailable.Error() + ": a row was not written, each time: take off the rule or the trigger" +
		" that was put on the engine's tables, troupe doctor names them"
}

// SQLState is what servers say themselves of a row that something else has dealt with.
func (MeddledError) SQLState() string { return "27000" }

// Unwrap returns what a caller can act on.
func (MeddledError) Unwrap() error { return persistence.ErrUnavailable }

// RefusesAnything is the error of a row that was refused with other values, too.
func RefusesAnything(err error) error { return fmt.Errorf("%w: %s", ErrSchemaRefuses, err.Error()) }

// SQLSTATE codes and classes that decide what a caller can do.
const (
	CodeLockNotAvailable = "55P03"
	CodeQueryCanceled    = "57014"
	CodeDiskFull         = "53100"
	CodeReadOnly         = "25006"
	CodeIdleInTx         = "25P03"
	CodeUniqueViolation  = "23505"
	CodeNotSupported     = "0A000"
	CodeNotPublishable   = "42P10" // and columns that are named wrongly, which the engine's statements do not
	CodeDependents       = "2BP01"
	CodeNoStatement      = "26000"
	CodeUndefinedTable   = "42P01"
	CodeUndefinedColumn  = "42703"
	CodeUndefinedRoutine = "42883"
	CodeNoPrivilege      = "42501"
	CodeUndefinedSchema  = "3F000"
	CodeLimit            = "54000"
	CodeDivisionByZero   = "22012"
	CodeLogarithm        = "2201E"
	CodeDataLost         = "XX001"
	CodeIndexLost        = "XX002"
	CodeDiskError        = "58030"
	CodeInternal         = "XX000"
	CodeTxTimeout        = "25P04" // since PostgreSQL 17
	CodeFileLost         = "58P01"

	ClassCardinality = "21"
	ClassData        = "22"
	ClassIntegrity   = "23"
	ClassRollback    = "40"
	ClassLimit       = "54"
	ClassConnection  = "08"
	ClassResources   = "53"
	ClassRaised      = "P0" // by a function in PL/pgSQL
	ClassOperator    = "57"
	ClassNotNow      = "55"
	ClassLogin       = "28"
	ClassNoDatabase  = "3D"
	ClassSystem      = "58"
)

// said is an error with a part that may be shown to any caller.
type said struct {
	error
	what error
}

// Unwrap returns both.
func (e said) Unwrap() []error { return []error{e.error, e.what} }

// Translate turns what pgx returns into what a caller of the ports can act on.
// It is the only place where that is decided, and it looks at codes only.
func Translate(err error) error {
	if err == nil || errors.Is(err, ErrTrial) || Translated(err) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		var server wire.RefusedError
		if errors.As(err, &server) {
			err = said{err, persistence.Plain(server)}
		}
		// The connection failed on the way to the server or back: whether the
		// transaction was committed is unknown.
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	switch {
	case noRoom(pg):
		return fmt.Errorf("%w: %w", persistence.ErrDiskFull, err)
	case FileRefused(pg):
		return fmt.Errorf("%w: the server cannot work on a file of its own, look at its disk: %w", persistence.ErrUnavailable, err)
	case LacksResources(pg):
		return fmt.Errorf("%w: %w", persistence.ErrNoResources, err)
	}
	switch pg.Code {
	case CodeLockNotAvailable:
		return fmt.Errorf("%w: %w", ErrLockTimeout, err)
	case CodeLogarithm:
		if pg.Where == "" { // of a statement that has not written all of its rows, and not of a trigger
			return ErrRowsLost
		}
	case CodeQueryCanceled:
		return fmt.Errorf("%w: %w", persistence.ErrStatementTimeout, err)
	case CodeUniqueViolation, CodeNoStatement:
		return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
	case CodeNotSupported:
		switch {
		case StalePlan(pg):
			return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
		case pg.Routine == "call_bool_check_hook": // a standby cannot begin to write
			return fmt.Errorf("%w: %w", persistence.ErrReadOnly, err)
		}
		return fmt.Errorf("%w: the server cannot do what it was asked for, since there is a rule on the engine's tables, or they are no tables any more:"+
			" take it off (drop rule), troupe doctor names it: %w", persistence.ErrUnavailable, err)
	case CodeDependents:
		return fmt.Errorf("%w (%s): %w", ErrDependents, lifecycle.CleanText(pg.Detail), err)
	case CodeNoPrivilege, CodeUndefinedTable, CodeUndefinedColumn, CodeUndefinedSchema, CodeUndefinedRoutine, CodeNotPublishable:
		return schemaChanged(pg, err)
	case CodeReadOnly:
		return fmt.Errorf("%w: %w", persistence.ErrReadOnly, err)
	case CodeIdleInTx, CodeTxTimeout:
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	if IDsSpent(pg) {
		return fmt.Errorf("%w: the server takes no writes until VACUUM has freed transaction ids: end what holds it back,"+
			" open and prepared transactions and replication slots, which troupe doctor names: %w", persistence.ErrUnavailable, err)
	}
	switch Class(pg.Code) {
	case ClassRollback:
		return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
	case ClassCardinality, ClassData, ClassLimit:
		return fmt.Errorf("%w: %w", persistence.ErrBadRow, err)
	case ClassRaised: // the engine has no functions that could
		return fmt.Errorf("%w: it was raised by %s: %w", ErrSchemaRefuses, lifecycle.CleanText(pg.Where), err)
	case ClassIntegrity: // no value that the engine stores breaks what the migrations made
		return fmt.Errorf("%w: %w", ErrSchemaRefuses, err)
	case ClassConnection, ClassOperator, ClassSystem, ClassNotNow, ClassLogin, ClassNoDatabase:
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	return err
}

// schemaChanged translates why a statement does not fit the schema any more.
func schemaChanged(pg *pgconn.PgError, err error) error {
	switch {
	case pg.Code == CodeNoPrivilege:
		return fmt.Errorf("%w: the role may not do what it has to: give it the rights on the schema's tables back, troupe doctor names them: %w",
			persistence.ErrUnavailable, err)
	case pg.Code == CodeNotPublishable:
		return fmt.Errorf("%w: a publication carries updates or deletes of the engine's tables, and not what their rows are known by (%s):"+
			" have it publish inserts only, troupe doctor names it: %w", persistence.ErrUnavailable, lifecycle.CleanText(pg.Detail), err)
	case pg.Where != "" && !strings.Contains(pg.Where, ".history_"): // not history_of and history_page
		return fmt.Errorf("%w: a trigger that was put on the engine's tables does not find what it names: name the schema, too, in its function,"+
			" or set its search_path (%s): %w", persistence.ErrUnavailable, lifecycle.CleanText(pg.Where), err)
	}
	return fmt.Errorf("%w: %w", persistence.ErrSchema, err)
}

// Class returns the class of a SQLSTATE: what is no such code, as of a proxy, has
// none.
func Class(code string) string { return code[:min(2, len(code))] }

// Translated reports whether an error is one of ours already.
func Translated(err error) bool {
	for _, known := range []error{
		persistence.ErrUnavailable, persistence.ErrConflict, persistence.ErrBadRow, persistence.ErrPodDead,
		persistence.ErrDeposed, persistence.ErrRunNotFound, persistence.ErrTenantsFull, persistence.ErrDeadLetterNotFound,
		persistence.ErrNumbersChanged,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// retriesMax bounds how often a transaction that the database rolled back is
// made again before the caller hears of it.
const retriesMax = 4

// CallMax bounds a call, whatever the context of its caller says: a server may
// never answer.
const CallMax = 30 * time.Second

var errCallMax = errors.New("no answer in " + CallMax.String())

// Bounded returns the context of one call.
func Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, CallMax, errCallMax)
}

// Retry calls do again while the database rolls it back for reasons that are
// over at once: serialization failures, deadlocks, a statement to be prepared
// anew. After a lock timeout the caller decides what to leave out.
func Retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := Bounded(ctx)
	defer cancel()
	var err error
	for range retriesMax {
		err = Translate(do(ctx))
		if !errors.Is(err, persistence.ErrConflict) || errors.Is(err, ErrLockTimeout) || HasCode(err, CodeQueryCanceled) {
			return err
		}
	}
	if errors.Is(err, ErrRowsLost) || PlaceTaken(err) {
		return MeddledError{}
	}
	return err
}

// StalePlan reports whether a statement was prepared before its table was changed. The
// code is that of anything that the server cannot do.
func StalePlan(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == CodeNotSupported && pg.Routine == "RevalidateCachedQuery"
}

// IDsSpent reports whether the server refuses to write because its transaction
// ids have run out. The code is that of values that are too large, too.
func IDsSpent(pg *pgconn.PgError) bool {
	return pg.Code == CodeLimit && (pg.Routine == "GetNewTransactionId" || pg.Routine == "GetNewMultiXactId")
}

// Unreadable reports whether the server cannot read what it has stored, as of a
// page that its disk has lost.
func Unreadable(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Severity != "ERROR" && pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	switch pg.Code {
	case CodeDataLost, CodeIndexLost, CodeDiskError, CodeFileLost:
		return true
	}
	return false
}

// HasCode reports whether an error of the server has a code.
func HasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// PlaceTaken reports whether a row of a queue has the place of another one, because the
// tenant's counter was not moved.
func PlaceTaken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == CodeUniqueViolation && pg.ConstraintName == "ready_queue_pkey"
}
