package troupe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// eventPage is how many events one read brings.
const eventPage = 500

// Status reads a run of a tenant ("": the default one) and its steps, or
// returns [ErrRunNotFound]. It brings the outputs of all steps that have
// completed, unless [WithoutOutputs] is given. While a step is queued, or waits for a
// signal, a child run or elements, it also reads what [Engine.Explain] reads, for StepStatus.Waiting.
func (e *Engine) Status(ctx context.Context, tenant string, run RunID, options ...StatusOption) (RunStatus, error) {
	var chosen statusOptions
	for i, option := range options {
		if option == nil {
			return RunStatus{}, fmt.Errorf("status: options[%d] is nil: leave it out", i)
		}
		option(&chosen)
	}
	return readFrom(ctx, e.Reader(), func(ctx context.Context, from reading) (RunStatus, error) {
		return from.status(ctx, tenant, run, chosen.without...)
	})
}

// RunByKey returns the id of the run of a tenant ("": the default one) and workflow
// that has a key, or [ErrRunNotFound]. [Engine.Status] and the other calls take it.
func (e *Engine) RunByKey(ctx context.Context, tenant, workflow, key string) (RunID, error) {
	return called(ctx, func(ctx context.Context) (RunID, error) {
		store, err := e.running()
		if err != nil {
			return RunID{}, err
		}
		id, err := store.RunByKey(ctx, persistence.RunKey{Tenant: e.tenant(tenant), Workflow: workflow, Key: key})
		return id, e.whileRunning(err)
	})
}

// Events reads the history of a run so far, oldest first, in pages. The
// sequence ends after the first error. [Reader.Events] follows a run while it lasts.
func (e *Engine) Events(ctx context.Context, tenant string, run RunID) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := e.Reader()
		for seen := EventPosition(nil); ; {
			page, next, err := reader.Events(ctx, tenant, run, seen, eventPage)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, event := range page {
				if !yield(event, nil) {
					return
				}
			}
			if len(page) < eventPage {
				return
			}
			seen = next
		}
	}
}

// filter turns a filter into that of the store.
func (f *Filter) filter(tenant func(string) string) (persistence.RunFilter, error) {
	out := persistence.RunFilter{
		Tenant: tenant(f.Tenant), Workflow: f.Workflow, States: f.States, Labels: f.Labels, Key: f.Key, Origin: f.Origin, Class: f.Class,
		FailedStep: f.FailedStep, Parent: f.Parent, Since: f.Since, Until: f.Until, Before: f.Before, Limit: f.Limit, Budget: f.Budget,
	}
	switch {
	case f.Limit < 0:
		return out, fmt.Errorf("filter runs: Limit is %d: use 0 or more", f.Limit)
	case f.Budget < 0:
		return out, fmt.Errorf("filter runs: Budget is %v: use 0 or more", f.Budget)
	case !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until):
		return out, fmt.Errorf("filter runs: Since is %v: use an instant before Until", f.Since.Format(time.RFC3339))
	}
	if err := checkStates("filter", f.States); err != nil {
		return out, err
	}
	if refused := actors.CheckRunFilter(&out); refused != nil {
		return out, fmt.Errorf("filter runs: %s: %s", refused.Field, refused.Remedy)
	}
	return out, nil
}

// Runs lists runs of one tenant, newest first, one page a call. A filter that no
// run can match, such as one with a NUL character, is an error that names the
// field and the remedy.
func (e *Engine) Runs(ctx context.Context, filter Filter) (RunPage, error) {
	return e.Reader().Runs(ctx, filter)
}

func (from *reading) runs(ctx context.Context, filter Filter) (RunPage, error) {
	selected, err := filter.filter(from.tenant)
	if err != nil {
		return RunPage{}, err
	}
	list, err := from.store.ListRuns(ctx, selected)
	if err != nil {
		return RunPage{}, err
	}
	page := RunPage{Runs: make([]RunStatus, 0, len(list.Rows)), Next: list.Next}
	for _, row := range list.Rows {
		page.Runs = append(page.Runs, runStatus(row, nil))
	}
	return page, nil
}

// Cancel asks a run of a tenant ("": the default one) to stop; it returns when
// the request is durable. Canceling a run that has ended changes nothing; an
// unknown one gives [ErrRunNotFound].
func (e *Engine) Cancel(ctx context.Context, tenant string, run RunID, reason string) error {
	_, err := called(ctx, func(ctx context.Context) (persistence.Canceled, error) {
		pod, err := e.livePod()
		if err != nil {
			return persistence.Canceled{}, err
		}
		answer, err := pod.Cancel(ctx, persistence.Cancel{
			Run: run, Tenant: e.tenant(tenant), Reason: reason, By: "api", Grace: e.config.CancelGrace,
		})
		return answer, podEnded(err)
	})
	return err
}

// await blocks until a run has ended. The pod sends a hint for each end that it
// hears of, or finds in a sweep, and the row is read after each hint. If the row
// cannot be read, for whatever reason, it is read again.
func (e *Engine) await(ctx context.Context, tenant string, run RunID) (persistence.RunRow, error) {
	if ctx.Err() != nil {
		return persistence.RunRow{}, endOf(ctx)
	}
	pod, err := e.livePod()
	if err != nil {
		return persistence.RunRow{}, err
	}
	hints, stop := pod.Watch(run)
	defer stop()
	defer e.nested.wait(ctx)()
	for {
		row, err := e.store.Run(ctx, tenant, run)
		switch {
		case errors.Is(err, ErrRunNotFound):
			return row, err
		case err != nil:
			pod.Remind(run) // the hint that was answered by this may have been the last
		case row.State.Terminal():
			return row, nil
		}
		select {
		case <-hints:
		case <-ctx.Done():
			return row, endOf(ctx)
		case <-pod.Done():
			return row, errEnded
		}
	}
}

// podEnded turns the end of the pod into the embedder's error.
func podEnded(err error) error {
	if errors.Is(err, actors.ErrEnded) {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	return err
}
