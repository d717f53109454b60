package troupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// OutputOf reads the output of one step of a run, as soon as the step has
// completed, whether or not the run has ended. No other output is read. ref is what
// the declaration of the step returned in [Define]. A step that did not complete
// gives [ErrStepNotEnded], [ErrStepSkipped], [ErrStepCanceled] or a [*StepError];
// a run that is unknown gives [ErrRunNotFound]; a ref of another workflow, or of a
// step that the version of the run does not have, is an error. It is safe for
// concurrent use.
func OutputOf[T, O any](ctx context.Context, run *Run[O], ref StepRef[T]) (T, error) {
	var zero T
	if run == nil || run.engine == nil {
		return zero, fmt.Errorf("output: run is empty: pass what RunNoWait or Handle.Get returned")
	}
	payload, err := called(ctx, func(ctx context.Context) ([]byte, error) {
		store, err := run.engine.running()
		if err != nil {
			return nil, err
		}
		payload, err := payloadOf(ctx, store, run.tenant, run.id, ref.at)
		return payload, run.engine.whileRunning(err)
	})
	if err != nil {
		return zero, fmt.Errorf("output of a step of run %v: %w", run.id, err)
	}
	return outputAs[T](run.engine, run.tenant, run.id, ref.at, payload)
}

// outputAs decodes the output of the step at a place.
func outputAs[T any](engine *Engine, tenant string, run RunID, at place, payload []byte) (T, error) {
	d := &at.plan.program.Definition
	step := d.Steps[at.step].Name
	codec := actors.CodecFor(engine.config.Codec, program.OutputPlace(tenant, at.outputOf()))
	value, err := program.Decode[T](codec, payload)
	if err != nil {
		return value, fmt.Errorf("decode the output of step %q of run %v into %T: %w", step, run, value, err)
	}
	return value, nil
}

// completedPause is between two reads of [Completed] while the database is away.
const completedPause = 500 * time.Millisecond

// Completed reads, in the function of [Builder.OnFailure], the output of a step of the
// failed run, such as a payment to give back. A step that did not complete gives
// [ErrStepSkipped], [ErrStepCanceled] or a [*StepError]. The output is read from the
// database when it is asked for, whatever its size, and while the database cannot be
// read Completed waits: another error says that ctx has ended, that the output cannot
// be decoded, that ref is of another workflow or version, or that the caller is no
// function of OnFailure. Other steps get outputs of their parents.
//
//	charge := troupe.Step0(b, "charge", chargeCard)
//	b.OnFailure(func(ctx context.Context, o Order, failed []*troupe.StepError) error {
//		payment, err := troupe.Completed(ctx, charge)
//		if errors.As(err, new(*troupe.StepError)) || errors.Is(err, troupe.ErrStepCanceled) {
//			return nil // nothing was paid
//		}
//		...
func Completed[T any](ctx context.Context, ref StepRef[T]) (T, error) {
	var zero T
	task, engine := Task(ctx), scopeOf(ctx).engine
	if engine == nil || task.Step != onFailureStep {
		return zero, errors.New("completed: the caller is no function of OnFailure: declare the step as a parent, or use OutputOf")
	}
	for {
		payload, err := called(ctx, func(ctx context.Context) ([]byte, error) {
			return payloadOf(ctx, engine.ownStore(), task.Tenant, task.Run, ref.at)
		})
		switch {
		case err == nil:
			return outputAs[T](engine, task.Tenant, task.Run, ref.at, payload)
		case ctx.Err() != nil:
			return zero, fmt.Errorf("completed: %w", context.Cause(ctx))
		case !errors.Is(err, ErrUnavailable):
			return zero, fmt.Errorf("completed: %w", err)
		}
		clock.System{}.Pause(ctx, completedPause)
	}
}

// payloadOf reads the output of the step at a place.
func payloadOf(ctx context.Context, store persistence.Runs, tenant string, run RunID, at place) ([]byte, error) {
	if at.plan == nil || at.step < 0 || at.step >= len(at.plan.program.Definition.Steps) {
		return nil, fmt.Errorf("ref is empty: pass what the declaration of the step returned in Define")
	}
	row, err := store.Run(ctx, tenant, run, persistence.WithoutOutputs)
	if err != nil {
		return nil, err
	}
	step := at.plan.program.Definition.Steps[at.step].Name
	if own := at.plan.program.Definition.Name; row.Workflow != own {
		return nil, fmt.Errorf("ref is step %q of workflow %q, the run is of %q: pass a ref of that workflow", step, own, row.Workflow)
	}
	tasks, err := store.Tasks(ctx, tenant, run, persistence.WithoutOutputs)
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if tasks[i].Name != step {
			continue
		}
		if err := notCompleted(&tasks[i]); err != nil {
			return nil, err
		}
		payload, err := persistence.Payload(ctx, store, workflow.TaskID{Run: run, Step: tasks[i].Step})
		return payload, err
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("step %q: %w: the run has not begun", step, ErrStepNotEnded)
	}
	return nil, fmt.Errorf("ref is step %q, which the run does not have: it began under another version of workflow %q", step, row.Workflow)
}

// notCompleted says how a step stands that has no output; nil: it completed.
func notCompleted(t *persistence.TaskRow) error {
	switch t.State { //nolint:exhaustive // every other state is not an ending
	case lifecycle.Completed:
		return nil
	case lifecycle.Skipped:
		return fmt.Errorf("step %q: %w", t.Name, ErrStepSkipped)
	case lifecycle.Canceled:
		return fmt.Errorf("step %q: %w", t.Name, ErrStepCanceled)
	case lifecycle.Failed:
		return &StepError{Step: t.Name, Class: t.Class, Text: t.Error}
	}
	return fmt.Errorf("step %q: %w: it is %v", t.Name, ErrStepNotEnded, t.State)
}
