package persistence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What a caller of a port can act on. Adapters translate their driver's errors
// into these in one place, by code and never by text.
var (
	// ErrUnavailable: the database cannot be reached, refuses connections or
	// is read-only right now. Whether the transaction was committed is
	// unknown. Ask again, with backoff.
	ErrUnavailable = errors.New("database unavailable")
	// ErrDiskFull is an ErrUnavailable: the database has no room to write.
	// Nothing was written.
	ErrDiskFull = fmt.Errorf("%w: its disk is full", ErrUnavailable)
	// ErrReadOnly is an ErrUnavailable: the database takes no writes. Nothing was
	// written.
	ErrReadOnly = fmt.Errorf("%w: it takes no writes", ErrUnavailable)
	// ErrNoResources is an ErrUnavailable: the server has no memory, no locks or
	// no connections for what is asked. Nothing was written.
	ErrNoResources = fmt.Errorf("%w: it lacks resources", ErrUnavailable)
	// ErrSchema is an ErrUnavailable: the tables are missing, or are not those of this
	// program. Nothing was written.
	ErrSchema = fmt.Errorf("%w: the schema's tables are not those of this program, or are missing, see troupe migrate status", ErrUnavailable)
	// ErrTxBroken is an ErrUnavailable: the connection of RecordInTx broke while
	// it had the transaction of a step function: by the network, by the server, or
	// by what the function did. Whether it was committed may be unknown.
	ErrTxBroken = fmt.Errorf("%w: the connection of the step's transaction broke", ErrUnavailable)
	// ErrTxEnded: a step function ended the transaction of RecordInTx with a
	// statement of its own. What it wrote may be committed without its completion,
	// and would be written again by another attempt.
	ErrTxEnded = errors.New("the step function ended the transaction that its completion belongs to:" +
		" send no commit and no rollback, the engine does that")
	// ErrConflict: the transaction was rolled back by the database (a
	// serialization failure, a deadlock, a lock that was not granted in time).
	// Nothing was written. Ask again.
	ErrConflict = errors.New("transaction rolled back by a conflict")
	// ErrStatementTimeout is an ErrConflict: the server ended a statement, which took
	// longer than statement_timeout or was canceled. Nothing was written.
	ErrStatementTimeout error = statementError{}
	// ErrBadRow: the database refuses a value of this request for good.
	// Nothing of the request was written.
	ErrBadRow = errors.New("value refused by the database")
	// ErrTxNotBegun is an ErrUnavailable: the transaction of a step could not be
	// begun, and not because the pool that it should come from is busy.
	ErrTxNotBegun = fmt.Errorf("%w: begin the step's transaction", ErrUnavailable)
	// ErrPodDead: the pod's lease was taken away or has run out. Nothing was
	// written, and nothing of this pod will be.
	ErrPodDead = errors.New("pod is dead to the database")
	// ErrDeposed: a newer leader exists. Nothing was written.
	ErrDeposed = errors.New("a newer leader exists")
	// ErrRunNotFound: no run with this id belongs to this tenant.
	ErrRunNotFound = errors.New("run not found")
	// ErrStepNotFound: the definition of the run has no step of this name.
	ErrStepNotFound = errors.New("the run has no such step")
	// ErrDeadLetterNotFound: no dead letter of this task belongs to this tenant.
	ErrDeadLetterNotFound = errors.New("dead letter not found")
	// ErrNumbersChanged: the database numbers the steps of a workflow otherwise
	// than it did when this process registered them, because it lost those
	// transactions. Nothing was written. Only a process that registers anew, after
	// a restart, may execute steps.
	ErrNumbersChanged = errors.New("the database numbers the steps of a workflow otherwise than it did: it lost transactions; restart the process")
	// ErrTxRefused: TriggerInTx stores nothing in this transaction: it has ended, only
	// reads, leads to another database, or is of another library or store. Another
	// transaction helps.
	ErrTxRefused = errors.New("transaction refused")
	// ErrTenantsFull: no group number is left for another tenant.
	ErrTenantsFull = errors.New("too many tenants")
)

// statementError is an ErrConflict that does not say that it is one: no other
// transaction was in the way.
type statementError struct{}

// Error implements error.
func (statementError) Error() string {
	return "the server ended a statement: it took longer than statement_timeout, or was canceled"
}

// Unwrap returns what a caller of the ports acts on.
func (statementError) Unwrap() error { return ErrConflict }

// Answered reports whether the database itself answered the call that returned
// err: it carried the call out or refused it. It did not if it could not be
// reached or fell silent, if it was not there for anybody, or if what is between
// answered in its place.
func Answered(err error) bool {
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDiskFull) {
		return true
	}
	var refusal interface{ SQLState() string } // of a server
	if !errors.As(err, &refusal) {
		return false
	}
	const (
		classConnection = "08"   // of proxies, too
		classGone       = "57P0" // it ends, or begins
	)
	state := refusal.SQLState()
	return !strings.HasPrefix(state, classConnection) && !strings.HasPrefix(state, classGone)
}

// plainError is an error with nothing of the driver's or the server's in it.
type plainError struct{ error }

// Unwrap returns the error.
func (e plainError) Unwrap() error { return e.error }

// Plain marks an error as one in which there is nothing of the driver's or the
// server's: Shown returns its text.
func Plain(err error) error { return plainError{err} }

// Shown returns what anybody may see of an error: its text if the server says it of
// tables, else words of the engine's own with the SQLSTATE. What a server says of
// sessions, and a driver of addresses, names the role, the database and the host.
func Shown(err error) string {
	var refusal interface{ SQLState() string } // of a server
	if !errors.As(err, &refusal) {
		var plain plainError
		switch {
		case errors.As(err, &plain):
			return plain.Error()
		case errors.Is(err, ErrTxNotBegun):
			return "the pool is closed, reaches no server, or has no connection to give"
		case errors.Is(err, ErrUnavailable):
			return "the database does not answer"
		}
		return err.Error()
	}
	state := refusal.SQLState()
	began := func(with string) bool { return strings.HasPrefix(state, with) }
	words := "the server refuses it, and the log says why"
	switch {
	case slices.ContainsFunc([]string{"23", "25", "27", "40", "42P01", "42703", "3F", "55P03", "57014", "P0", "XX", "0A"}, began):
		return err.Error() // of tables
	case began("28"):
		words = "the server does not let the engine's role in"
	case began("3D"):
		words = "the server has no such database, or does not open it"
	case began("42501"):
		words = "the role lacks a right: troupe doctor says which"
	case began("53"):
		words = "the server lacks memory, room, locks or connections"
	case began("57P"):
		words = "the server ends, or begins"
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", words, state)
}
