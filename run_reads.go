package troupe

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// eventPage is how many events one read brings.
const eventPage = 500

// Status reads a run of a tenant ("": the default one) and its steps, or
// returns [ErrRunNotFound]. It brings the outputs of all steps that have
// completed, unless [WithoutOutputs] is given.
func (e *Engine) Status(ctx context.Context, tenant string, run RunID, options ...StatusOption) (RunStatus, error) {
	var chosen statusOptions
	for i, option := range options {
		if option == nil {
			return RunStatus{}, fmt.Errorf("status: options[%d] is nil: leave it out", i)
		}
		option(&chosen)
	}
	return called(ctx, func(ctx context.Context) (RunStatus, error) {
		store, err := e.running()
		if err != nil {
			return RunStatus{}, err
		}
		row, err := store.Run(ctx, e.tenant(tenant), run, persistence.WithoutOutputs)
		if err != nil {
			return RunStatus{}, e.whileRunning(err)
		}
		tasks, err := store.Tasks(ctx, e.tenant(tenant), run, chosen.without...)
		if err != nil {
			return RunStatus{}, e.whileRunning(err)
		}
		return runStatus(row, tasks), nil
	})
}

// Events reads the history of a run so far, oldest first, in pages. The
// sequence ends after the first error.
func (e *Engine) Events(ctx context.Context, tenant string, run RunID) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		names, err := called(ctx, func(ctx context.Context) ([]string, error) { return e.stepNames(ctx, tenant, run) })
		if err != nil {
			yield(Event{}, err)
			return
		}
		for after := int64(0); ; {
			next := after
			page, err := called(ctx, func(ctx context.Context) (page []lifecycle.Event, err error) {
				page, next, err = e.store.Events(ctx, e.tenant(tenant), run, after, eventPage)
				return page, e.whileRunning(err)
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, event := range page {
				name := ""
				if event.Step >= 0 && int(event.Step) < len(names) { // a definition may have been removed
					name = names[event.Step]
				}
				if !yield(publicEvent(event, name), nil) {
					return
				}
			}
			if len(page) < eventPage {
				return
			}
			after = next
		}
	}
}

func (e *Engine) stepNames(ctx context.Context, tenant string, run RunID) ([]string, error) {
	store, err := e.running()
	if err != nil {
		return nil, err
	}
	names, err := store.StepNames(ctx, e.tenant(tenant), run)
	return names, e.whileRunning(err)
}

// filter turns a filter into that of the store.
func (f *Filter) filter(tenant func(string) string) (persistence.RunFilter, error) {
	out := persistence.RunFilter{
		Tenant: tenant(f.Tenant), Workflow: f.Workflow, States: f.States,
		Labels: f.Labels, Before: f.Before, Limit: min(f.Limit, persistence.PageMax),
	}
	if f.Limit < 0 {
		return out, fmt.Errorf("filter runs: Limit is %d: use 0 or more", f.Limit)
	}
	if out.Limit == 0 {
		out.Limit = 100
	}
	if refused := actors.CheckFilter(f.Tenant, f.Workflow, "", f.Labels); refused != nil {
		return out, fmt.Errorf("filter runs: %s: %s", refused.Field, refused.Remedy)
	}
	return out, nil
}

// Runs lists runs of one tenant, newest first, one page a call. A filter that no
// run can match, such as one with a NUL character, is an error that names the
// field and the remedy.
func (e *Engine) Runs(ctx context.Context, filter Filter) (RunPage, error) {
	return called(ctx, func(ctx context.Context) (RunPage, error) { return e.runs(ctx, filter) })
}

func (e *Engine) runs(ctx context.Context, filter Filter) (RunPage, error) {
	store, err := e.running()
	if err != nil {
		return RunPage{}, err
	}
	selected, err := filter.filter(e.tenant)
	if err != nil {
		return RunPage{}, err
	}
	rows, err := store.ListRuns(ctx, selected)
	if err != nil {
		return RunPage{}, e.whileRunning(err)
	}
	page := RunPage{Runs: make([]RunStatus, 0, len(rows))}
	for _, row := range rows {
		page.Runs = append(page.Runs, runStatus(row, nil))
	}
	if len(rows) == selected.Limit {
		page.Next = rows[len(rows)-1].ID
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
	defer waitNested(ctx)()
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
