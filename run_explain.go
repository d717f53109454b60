package troupe

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/explain"
)

// Reason is why a step, or a run, does not move, and what would mend it.
type Reason = explain.Reason

// Explain says why the run does not move: one reason for each step that has not
// ended, parents before their children, or one for the run as a whole. Of the elements of a [Map] it
// names the first 10 that neither run nor are about to. It changes
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

const (
	// waitingTurn bounds how long a status waits for its turn to ask why steps wait. One
	// status of a reader asks at a time: Explain shares its connection.
	waitingTurn = 200 * time.Millisecond
	// waitingMax bounds how long it waits for the answer.
	waitingMax = 2 * time.Second
)

// explainWaiting fills in why queued steps cannot be claimed right now, and which signals, child
// runs or elements steps wait for. If that cannot be read, the status has what the rows of the tasks say.
func (from *reading) explainWaiting(ctx context.Context, status *RunStatus) {
	asked := func(s StepStatus) bool { return s.State == StateQueued || s.State == StateWaiting }
	if !slices.ContainsFunc(status.Steps, asked) {
		return
	}
	turn, end := context.WithTimeout(ctx, waitingTurn)
	defer end()
	select {
	case from.explaining <- struct{}{}:
		defer func() { <-from.explaining }()
	case <-turn.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitingMax)
	defer cancel()
	situation, err := from.situation(ctx, status.Tenant, status.ID)
	if err != nil {
		return
	}
	for _, reason := range explain.Explain(situation) {
		for i := range status.Steps {
			step := &status.Steps[i]
			if !asked(*step) || reason.Step != "" && reason.Step != step.Name {
				continue
			}
			step.Waiting = waitingFor(reason)
		}
	}
}

// waitingFor is what a status says of such a step for a reason that was read after it.
func waitingFor(reason Reason) string {
	switch reason.Cause { //nolint:exhaustive // the others keep a step from being claimed
	case explain.CauseEnded, explain.CauseParents, explain.CauseSleeping, explain.CauseBackoff, explain.CauseRunning, explain.CauseStopping,
		explain.CausePodLate, explain.CausePodLost:
		return "" // it was claimed meanwhile
	case explain.CauseReady:
		if reason.Remedy == "" {
			return ""
		}
	}
	reason.Step = ""
	return reason.String()
}
