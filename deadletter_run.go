package troupe

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RequeueRun is Requeue for the id of a run: all its dead letters get another chance. A run
// without any gives [ErrDeadLetterNotFound].
func (d *DeadLetters) RequeueRun(ctx context.Context, tenant string, run RunID, options RequeueOptions) (Requeued, error) {
	office, err := d.open()
	if err != nil {
		return Requeued{}, err
	}
	filter := persistence.DeadFilter{Tenant: office.tenant(tenant), After: workflow.TaskID{Run: run, Step: lifecycle.RunStep}, Limit: 1}
	letters, err := repeated(ctx, func(ctx context.Context) ([]persistence.DeadLetter, error) {
		return office.store.ListDeadLetters(ctx, filter)
	})
	switch {
	case err != nil:
		return Requeued{}, err
	case len(letters) == 0 || letters[0].Task.Run != run:
		return Requeued{}, fmt.Errorf("requeue run %v: %w", run, ErrDeadLetterNotFound)
	}
	return d.Requeue(ctx, tenant, deadID(letters[0].Task), options)
}
