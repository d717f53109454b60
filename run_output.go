package troupe

import (
	"context"
	"fmt"

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
	var step string
	payload, err := called(ctx, func(ctx context.Context) (payload []byte, err error) {
		payload, step, err = run.engine.payloadOf(ctx, run.tenant, run.id, ref.at)
		return payload, err
	})
	if err != nil {
		return zero, fmt.Errorf("output of a step of run %v: %w", run.id, err)
	}
	value, err := program.Decode[T](run.engine.config.Codec, payload)
	if err != nil {
		return zero, fmt.Errorf("decode the output of step %q of run %v into %T: %w", step, run.id, zero, err)
	}
	return value, nil
}

// payloadOf reads the output of the step at a place, and returns the name of the step.
func (e *Engine) payloadOf(ctx context.Context, tenant string, run RunID, at place) (payload []byte, step string, err error) {
	if at.plan == nil || at.step < 0 || at.step >= len(at.plan.program.Definition.Steps) {
		return nil, "", fmt.Errorf("ref is empty: pass what the declaration of the step returned in Define")
	}
	store, err := e.running()
	if err != nil {
		return nil, "", err
	}
	row, err := store.Run(ctx, tenant, run, persistence.WithoutOutputs)
	if err != nil {
		return nil, "", e.whileRunning(err)
	}
	step = at.plan.program.Definition.Steps[at.step].Name
	if own := at.plan.program.Definition.Name; row.Workflow != own {
		return nil, step, fmt.Errorf("ref is step %q of workflow %q, the run is of %q: pass a ref of that workflow", step, own, row.Workflow)
	}
	tasks, err := store.Tasks(ctx, tenant, run, persistence.WithoutOutputs)
	if err != nil {
		return nil, step, e.whileRunning(err)
	}
	for i := range tasks {
		if tasks[i].Name != step {
			continue
		}
		if err := notCompleted(&tasks[i]); err != nil {
			return nil, step, err
		}
		payload, err = persistence.Payload(ctx, store, workflow.TaskID{Run: run, Step: tasks[i].Step})
		return payload, step, e.whileRunning(err)
	}
	if len(tasks) == 0 {
		return nil, step, fmt.Errorf("step %q: %w: the run has not begun", step, ErrStepNotEnded)
	}
	return nil, step, fmt.Errorf("ref is step %q, which the run does not have: it began under another version of workflow %q", step, row.Workflow)
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
