package persistence

import (
	"errors"
	"fmt"
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
	// ErrTxBroken is an ErrUnavailable: the connection of RecordInTx broke while
	// it had the transaction of a step function: by the network, by the server, or
	// by what the function did. Whether it was committed may be unknown.
	ErrTxBroken = fmt.Errorf("%w: the connection of the step's transaction broke", ErrUnavailable)
	// ErrConflict: the transaction was rolled back by the database (a
	// serialization failure, a deadlock, a lock that was not granted in time).
	// Nothing was written. Ask again.
	ErrConflict = errors.New("transaction rolled back by a conflict")
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
	// ErrDeadLetterNotFound: no dead letter of this task belongs to this tenant.
	ErrDeadLetterNotFound = errors.New("dead letter not found")
	// ErrNumbersChanged: the database numbers the steps of a workflow otherwise
	// than it did when this process registered them, because it lost those
	// transactions. Nothing was written. Only a process that registers anew, after
	// a restart, may execute steps.
	ErrNumbersChanged = errors.New("the database numbers the steps of a workflow otherwise than it did: it lost transactions; restart the process")
	// ErrTenantsFull: no group number is left for another tenant.
	ErrTenantsFull = errors.New("too many tenants")
)

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
