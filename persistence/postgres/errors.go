package postgres

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

// errRowsLost: not all rows were written. The locks forbid that any changed, so the
// transaction is rolled back and made again.
var errRowsLost = fmt.Errorf("%w: not all rows were written, one changed under its lock", persistence.ErrConflict)

// errLockTimeout: somebody holds a lock for longer than lock_timeout.
var errLockTimeout = fmt.Errorf("%w: a lock was not granted in time", persistence.ErrConflict)

// errDependents: somebody's view or foreign key keeps a table from being dropped.
var errDependents = fmt.Errorf("%w: something that is not the engine's depends on a table of history or events, which is not dropped before that is:"+
	" drop it, or have it read run_history or task_events instead; troupe doctor names it", persistence.ErrUnavailable)

// errSchemaRefuses: what refuses a row is not the row's fault.
var errSchemaRefuses = fmt.Errorf("%w: the schema refuses a row, by a constraint or a trigger that somebody added, or because a partition is missing:"+
	" take it off or put it back", persistence.ErrUnavailable)

// meddledError: rows are not written, though nobody else can have changed them. No
// transaction that is made again finds anything else.
type meddledError struct{}

func (meddledError) Error() string {
	return persistence.ErrUnavailable.Error() + ": a row was not written, each time: take off the rule or the trigger that somebody put" +
		" on the engine's tables, troupe doctor names them"
}

// SQLState is what servers say themselves of a row that something else has dealt with.
func (meddledError) SQLState() string { return "27000" }

// Unwrap returns what a caller can act on.
func (meddledError) Unwrap() error { return persistence.ErrUnavailable }

// refusesAnything is the error of a row that was refused with other values, too.
func refusesAnything(err error) error { return fmt.Errorf("%w: %s", errSchemaRefuses, err.Error()) }

// SQLSTATE codes and classes that decide what a caller can do.
const (
	codeLockNotAvailable = "55P03"
	codeQueryCanceled    = "57014"
	codeDiskFull         = "53100"
	codeReadOnly         = "25006"
	codeIdleInTx         = "25P03"
	codeUniqueViolation  = "23505"
	codeNotSupported     = "0A000"
	codeNotPublishable   = "42P10" // and columns that are named wrongly, which the engine's statements do not
	codeDependents       = "2BP01"
	codeNoStatement      = "26000"
	codeUndefinedTable   = "42P01"
	codeUndefinedColumn  = "42703"
	codeUndefinedRoutine = "42883"
	codeNoPrivilege      = "42501"
	codeUndefinedSchema  = "3F000"
	codeLimit            = "54000"
	codeDivisionByZero   = "22012"
	codeLogarithm        = "2201E"
	codeDataLost         = "XX001"
	codeIndexLost        = "XX002"
	codeDiskError        = "58030"
	codeInternal         = "XX000"
	codeTxTimeout        = "25P04" // since PostgreSQL 17
	codeFileLost         = "58P01"

	classCardinality = "21"
	classData        = "22"
	classIntegrity   = "23"
	classRollback    = "40"
	classLimit       = "54"
	classConnection  = "08"
	classResources   = "53"
	classRaised      = "P0" // by a function in PL/pgSQL
	classOperator    = "57"
	classNotNow      = "55"
	classLogin       = "28"
	classNoDatabase  = "3D"
	classSystem      = "58"
)

// said is an error of which something may be shown to anybody.
type said struct {
	error
	what error
}

// Unwrap returns both.
func (e said) Unwrap() []error { return []error{e.error, e.what} }

// translate turns what pgx returns into what a caller of the ports can act on.
// It is the only place where that is decided, and it looks at codes only.
func translate(err error) error {
	if err == nil || errors.Is(err, errTrial) || translated(err) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		var server wire.RefusedError
		if errors.As(err, &server) {
			err = said{err, persistence.Plain(server)}
		}
		// Whatever went wrong on the way to the server or back: nobody knows
		// whether the transaction was committed.
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	switch {
	case noRoom(pg):
		return fmt.Errorf("%w: %w", persistence.ErrDiskFull, err)
	case fileRefused(pg):
		return fmt.Errorf("%w: the server cannot work on a file of its own, look at its disk: %w", persistence.ErrUnavailable, err)
	case lacksResources(pg):
		return fmt.Errorf("%w: %w", persistence.ErrNoResources, err)
	}
	switch pg.Code {
	case codeLockNotAvailable:
		return fmt.Errorf("%w: %w", errLockTimeout, err)
	case codeLogarithm:
		if pg.Where == "" { // of a statement that has not written all of its rows, and not of a trigger
			return errRowsLost
		}
	case codeQueryCanceled:
		return fmt.Errorf("%w: %w", persistence.ErrStatementTimeout, err)
	case codeUniqueViolation, codeNoStatement:
		return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
	case codeNotSupported:
		switch {
		case stalePlan(pg):
			return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
		case pg.Routine == "call_bool_check_hook": // a standby cannot begin to write
			return fmt.Errorf("%w: %w", persistence.ErrReadOnly, err)
		}
		return fmt.Errorf("%w: the server cannot do what it was asked for, since somebody put a rule on the engine's tables, or made them something else:"+
			" take it off (drop rule), troupe doctor names it: %w", persistence.ErrUnavailable, err)
	case codeDependents:
		return fmt.Errorf("%w (%s): %w", errDependents, lifecycle.CleanText(pg.Detail), err)
	case codeNoPrivilege, codeUndefinedTable, codeUndefinedColumn, codeUndefinedSchema, codeUndefinedRoutine, codeNotPublishable:
		return schemaChanged(pg, err)
	case codeReadOnly:
		return fmt.Errorf("%w: %w", persistence.ErrReadOnly, err)
	case codeIdleInTx, codeTxTimeout:
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	if idsSpent(pg) {
		return fmt.Errorf("%w: the server takes no writes until VACUUM has freed transaction ids: end what holds it back,"+
			" open and prepared transactions and replication slots, which troupe doctor names: %w", persistence.ErrUnavailable, err)
	}
	switch class(pg.Code) {
	case classRollback:
		return fmt.Errorf("%w: %w", persistence.ErrConflict, err)
	case classCardinality, classData, classLimit:
		return fmt.Errorf("%w: %w", persistence.ErrBadRow, err)
	case classRaised: // the engine has no functions that could
		return fmt.Errorf("%w: it was raised by %s: %w", errSchemaRefuses, lifecycle.CleanText(pg.Where), err)
	case classIntegrity: // no value that the engine stores breaks what the migrations made
		return fmt.Errorf("%w: %w", errSchemaRefuses, err)
	case classConnection, classOperator, classSystem, classNotNow, classLogin, classNoDatabase:
		return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err)
	}
	return err
}

// schemaChanged translates why a statement does not fit the schema any more.
func schemaChanged(pg *pgconn.PgError, err error) error {
	switch {
	case pg.Code == codeNoPrivilege:
		return fmt.Errorf("%w: the role may not do what it has to: give it the rights on the schema's tables back, troupe doctor names them: %w",
			persistence.ErrUnavailable, err)
	case pg.Code == codeNotPublishable:
		return fmt.Errorf("%w: a publication carries updates or deletes of the engine's tables, and not what their rows are known by (%s):"+
			" have it publish inserts only, troupe doctor names it: %w", persistence.ErrUnavailable, lifecycle.CleanText(pg.Detail), err)
	case pg.Where != "" && !strings.Contains(pg.Where, ".history_"): // not history_of and history_page
		return fmt.Errorf("%w: a trigger that somebody put on the engine's tables does not find what it names: name the schema, too, in its function,"+
			" or set its search_path (%s): %w", persistence.ErrUnavailable, lifecycle.CleanText(pg.Where), err)
	}
	return fmt.Errorf("%w: %w", persistence.ErrSchema, err)
}

// class returns the class of a SQLSTATE: what is no such code, as of a proxy, has
// none.
func class(code string) string { return code[:min(2, len(code))] }

// translated reports whether an error is one of ours already.
func translated(err error) bool {
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

// callMax bounds a call, whatever the context of its caller says: nobody waits
// for ever for a server that does not answer.
const callMax = 30 * time.Second

var errCallMax = errors.New("no answer in " + callMax.String())

// bounded returns the context of one call.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callMax, errCallMax)
}

// retry calls do again while the database rolls it back for reasons that are
// over at once: serialization failures, deadlocks, a statement to be prepared
// anew. A lock that was not granted is the caller's to work around.
func retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var err error
	for range retriesMax {
		err = translate(do(ctx))
		if !errors.Is(err, persistence.ErrConflict) || errors.Is(err, errLockTimeout) || hasCode(err, codeQueryCanceled) {
			return err
		}
	}
	if errors.Is(err, errRowsLost) || placeTaken(err) {
		return meddledError{}
	}
	return err
}

// placeTaken reports whether a row of a queue has the place of another one, because the
// tenant's counter was not moved.
func placeTaken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeUniqueViolation && pg.ConstraintName == "ready_queue_pkey"
}

// stalePlan reports whether a statement was prepared before its table was changed. The
// code is that of anything that the server cannot do.
func stalePlan(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeNotSupported && pg.Routine == "RevalidateCachedQuery"
}

// idsSpent reports whether the server refuses to write because its transaction
// ids have run out. The code is that of values that are too large, too.
func idsSpent(pg *pgconn.PgError) bool {
	return pg.Code == codeLimit && (pg.Routine == "GetNewTransactionId" || pg.Routine == "GetNewMultiXactId")
}

// unreadable reports whether the server cannot read what it has stored, as of a
// page that its disk has lost.
func unreadable(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Severity != "ERROR" && pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	switch pg.Code {
	case codeDataLost, codeIndexLost, codeDiskError, codeFileLost:
		return true
	}
	return false
}

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
