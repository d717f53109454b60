package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Retention is how long runs are kept after their end, by class; zero: for
// ever.
type Retention [workflow.RetentionClasses]time.Duration

const (
	// ArchiveMax bounds the runs that one call moves into history.
	ArchiveMax = 500
	// ArchiveLookMax bounds the runs that one call looks at to find them.
	ArchiveLookMax = 5000
	// DropRowsMax bounds the rows that one call removes other than by dropping
	// a span as a whole.
	DropRowsMax = 5000

	spanMin   = time.Minute
	spanMax   = 24 * time.Hour
	spanEver  = 30 * 24 * time.Hour
	spanParts = 7 // of a retention: how much longer than asked a run may be kept
)

// Span returns how long the spans of a class are: runs that ended in the same
// span of time are removed at once. It is a seventh of the retention, from a
// minute to a day.
func (r Retention) Span(class workflow.RetentionClass) time.Duration {
	keep := r[class]
	if keep <= 0 {
		return spanEver
	}
	return min(max((keep/spanParts).Truncate(time.Minute), spanMin), spanMax)
}

// SpanOf returns the span of a class in which an instant lies.
func (r Retention) SpanOf(class workflow.RetentionClass, at time.Time) (since, until time.Time) {
	since = at.UTC().Truncate(r.Span(class))
	return since, since.Add(r.Span(class))
}

// Archive asks to move runs into history.
type Archive struct {
	After     workflow.RunID // look at runs above this id
	Age       time.Duration  // that ended at least so long ago
	Limit     int            // 0: ArchiveMax, which is the most
	Retention Retention      // says how long spans are
}

// Most returns how many runs the call may move.
func (a Archive) Most() int {
	if a.Limit <= 0 {
		return ArchiveMax
	}
	return min(a.Limit, ArchiveMax)
}

// Archived is what ArchiveRuns did.
type Archived struct {
	Now   time.Time
	Count int
	Next  workflow.RunID // where to go on; zero: that was the end of the table

	Unreadable []workflow.RunID // runs that the database cannot read, and that stay where they are
	Refused    []workflow.RunID // runs that a constraint or trigger of others keeps where they are
	RefusedFor error            // why the last of them was refused
}

// Refusal returns why not all of it was done, or nil.
func (a Archived) Refusal() error { return a.RefusedFor }

// Dropped is what DropHistory did.
type Dropped struct {
	Spans int // removed as a whole
	Keys  int // idempotency keys removed
	More  bool
}

// Rotated is what RotateEvents did.
type Rotated struct {
	Spans int // removed as a whole
	Kept  int // events of living runs, put aside before
	More  bool
}

// NotAfter is the earlier of what a clock says and what a caller takes for the latest
// that it can; a zero instant is none.
func NotAfter(clock, by time.Time) time.Time {
	if by.IsZero() || clock.Before(by) {
		return clock
	}
	return by
}

// History keeps the tables of open runs small, however much has ended. Only
// the leader calls it; every call carries the leader's epoch and fails with
// ErrDeposed under a newer one. No call waits for a lock for longer than a
// tenth of a second.
type History interface {
	// ArchiveRuns moves ended runs into history, in ascending order of their
	// ids: readers see no difference. It looks at no more than
	// ArchiveLookMax runs.
	ArchiveRuns(ctx context.Context, epoch int64, archive Archive) (Archived, error)

	// DropHistory removes archived runs for good, with their tasks, events and
	// idempotency keys: all that ended in a span of time whose end is longer
	// ago than the retention of their class. It is no later than notAfter, whatever the
	// clock says, which may have leapt; zero: it is believed.
	DropHistory(ctx context.Context, epoch int64, retention Retention, notAfter time.Time) (Dropped, error)

	// RotateEvents makes room for events to come, and removes spans of time of
	// which no run that is not archived has any, after it put those of the few
	// aside that still go on. A span is as long as said.
	RotateEvents(ctx context.Context, epoch int64, span time.Duration) (Rotated, error)
}
