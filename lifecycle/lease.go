package lifecycle

import (
	"fmt"
	"time"
)

// LeaseState is how a pod stands to its own lease, by its own clock.
type LeaseState uint8

// The states of a lease.
const (
	_         LeaseState = iota
	LeaseLive            // renewed in time
	LeaseLate            // a renewal is overdue; the pod works on and keeps trying
	LeaseLost            // the lease may have run out: contexts are ended, nothing is recorded
	LeaseDead            // the database said so; the pod needs a new number
)

// String returns the name used in logs and diagrams.
func (s LeaseState) String() string {
	switch s {
	case LeaseLive:
		return "live"
	case LeaseLate:
		return "late"
	case LeaseLost:
		return "lost"
	case LeaseDead:
		return "dead"
	}
	return fmt.Sprintf("lease(%d)", uint8(s))
}

// leaseTable is the whole lifecycle of a pod's lease. From lost there is a way
// back: a pod that is late but was not declared dead renews and works on.
var leaseTable = [...]struct {
	from, to LeaseState
	when     string
}{
	{LeaseLive, LeaseLate, "a renewal is overdue"},
	{LeaseLive, LeaseLost, "its end is near"},
	{LeaseLive, LeaseDead, "the database refuses the pod"},

	{LeaseLate, LeaseLive, "renewed"},
	{LeaseLate, LeaseLost, "its end is near"},
	{LeaseLate, LeaseDead, "the database refuses the pod"},

	{LeaseLost, LeaseLive, "renewed before it was declared dead"},
	{LeaseLost, LeaseLate, "renewed, but the answer took long"},
	{LeaseLost, LeaseDead, "the database refuses the pod"},
}

// CheckLease returns ErrIllegalTransition unless a lease may go from one state
// to the other.
func CheckLease(from, to LeaseState) error {
	for _, t := range leaseTable {
		if t.from == from && t.to == to {
			return nil
		}
	}
	return fmt.Errorf("%w: lease from %v to %v", ErrIllegalTransition, from, to)
}

// LeaseTimes are the durations a lease is judged by.
type LeaseTimes struct {
	TTL    time.Duration // how long a renewal lasts
	Pulse  time.Duration // how often it is renewed
	Margin time.Duration // how long before the end the pod stops acting
}

// DecideLease says how the lease stands at now. sent is when the last
// renewal that succeeded was sent, by the same monotonic clock: the database
// cannot have set the end earlier than sent + TTL. A pod that the database has
// refused stays dead, whatever was renewed before.
func DecideLease(times LeaseTimes, before LeaseState, sent, now time.Time) LeaseState {
	age := now.Sub(sent)
	switch {
	case before == LeaseDead:
		return LeaseDead
	case age >= times.TTL-times.Margin:
		return LeaseLost
	case age >= 2*times.Pulse:
		return LeaseLate
	}
	return LeaseLive
}
