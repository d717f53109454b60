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
	return e.Reader().Explain(ctx, tenant, run)
}

// knows adds to a situation what only the engine knows.
func (e *Engine) knows(situation *explain.Situation) {
	situation.TenantLimit, situation.Pulse, situation.Lease = e.config.TenantLimit, e.config.Pulse, e.config.Lease
	own := e.Stats()
	for i := range situation.Pods {
		if p := &situation.Pods[i]; p.ID == own.Pod {
			p.Stuck = own.Stuck
		}
	}
}
