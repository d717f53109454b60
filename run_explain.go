package troupe

import (
	"context"

	"github.com/troupe-dev/troupe/explain"
)

// Reason is why a step, or a run, does not move, and what would mend it.
type Reason = explain.Reason

// Explain says why the run does not move: one reason for each step that has not
// ended, parents before their children, or one for the run as a whole. It changes
// nothing and waits for no lock.
func (r *Run[O]) Explain(ctx context.Context) ([]Reason, error) {
	return r.engine.Explain(ctx, r.tenant, r.id)
}

// Explain is [Run.Explain] for a run of a tenant ("": the default one), or
// returns [ErrRunNotFound].
func (e *Engine) Explain(ctx context.Context, tenant string, run RunID) ([]Reason, error) {
	return called(ctx, func(ctx context.Context) ([]Reason, error) { return e.explain(ctx, tenant, run) })
}

func (e *Engine) explain(ctx context.Context, tenant string, run RunID) ([]Reason, error) {
	store, err := e.running()
	if err != nil {
		return nil, err
	}
	situation, err := store.Situation(ctx, e.tenant(tenant), run)
	if err != nil {
		return nil, err
	}
	situation.TenantLimit, situation.Pulse, situation.Lease = e.config.TenantLimit, e.config.Pulse, e.config.Lease
	own := e.Stats()
	for i := range situation.Pods {
		if p := &situation.Pods[i]; p.ID == own.Pod {
			p.Stuck = own.Stuck
		}
	}
	return explain.Explain(situation), nil
}
