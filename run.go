package troupe

import (
	"context"
	"fmt"
	"iter"

	"github.com/troupe-dev/troupe/persistence"
)

// Run is a handle of one run. It holds no resource and is safe for concurrent
// use.
type Run[O any] struct {
	engine   *Engine
	id       RunID
	tenant   string
	workflow string
	existing bool
	output   func(context.Context, *persistence.RunRow) (O, error)
}

// ID returns the id that the engine gave the run.
func (r *Run[O]) ID() RunID { return r.id }

// Existing reports whether the trigger found a run with its key instead of
// starting one.
func (r *Run[O]) Existing() bool { return r.existing }

// Await blocks until the run has ended, on whatever pod, and returns its
// output. It is woken, it does not poll, and it waits while the database cannot
// be read, whatever the reason. A run that ended otherwise gives a [*RunError],
// an unknown one [ErrRunNotFound]; the end of ctx gives its cause, and the run
// continues.
func (r *Run[O]) Await(ctx context.Context) (O, error) {
	ctx = ofCaller(ctx)
	var zero O
	row, err := r.engine.await(ctx, r.tenant, r.id)
	if err != nil {
		return zero, err
	}
	if err := endError(row); err != nil {
		return zero, err
	}
	output, err := r.output(ctx, &row)
	if err != nil {
		return zero, fmt.Errorf("run %v: decode output: %w", r.id, err)
	}
	return output, nil
}

// endError returns how a run ended if that is not with an output.
func endError(row persistence.RunRow) error {
	end := &RunError{Run: row.ID, State: row.State, Step: row.FailedStep, Class: row.Class, Text: row.Error}
	switch {
	case row.State == StateFailed:
		end.reason = ErrRunFailed
	case row.State == StateCanceled:
		end.reason, end.Text = ErrRunCanceled, row.CancelReason
	case !row.HasOutput:
		end.reason = ErrNoOutput
	default:
		return nil
	}
	return end
}

// Cancel asks the run to stop; it returns when the request is durable, not
// when the run has stopped. Canceling a run that has ended changes nothing.
func (r *Run[O]) Cancel(ctx context.Context, reason string) error {
	return r.engine.Cancel(ctx, r.tenant, r.id, reason)
}

// Status reads the run and its steps, or returns [ErrRunNotFound]. See
// [WithoutOutputs] for runs whose outputs are large.
func (r *Run[O]) Status(ctx context.Context, options ...StatusOption) (RunStatus, error) {
	return r.engine.Status(ctx, r.tenant, r.id, options...)
}

// Events reads the history of the run so far, oldest first. The sequence ends
// after the first error.
func (r *Run[O]) Events(ctx context.Context) iter.Seq2[Event, error] {
	return r.engine.Events(ctx, r.tenant, r.id)
}
