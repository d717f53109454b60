package storetest

import (
	"context"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Events implements persistence.RunViews.
func (t *Twin) Events(
	ctx context.Context, tenant string, run workflow.RunID, seen persistence.EventPosition, limit int,
) ([]lifecycle.Event, error) {
	return twice(ctx, t, "Events", run, func(ctx context.Context, s persistence.Store) ([]lifecycle.Event, error) {
		return s.Events(ctx, tenant, run, seen, limit)
	})
}

// Payload implements persistence.RunViews.
func (t *Twin) Payload(ctx context.Context, tenant string, run workflow.RunID, step string, limit int) (persistence.PayloadHead, error) {
	return twice(ctx, t, "Payload", run, func(ctx context.Context, s persistence.Store) (persistence.PayloadHead, error) {
		return s.Payload(ctx, tenant, run, step, limit)
	})
}

// Queues implements persistence.RunViews.
func (t *Twin) Queues(ctx context.Context, tenant string) ([]persistence.QueueRow, error) {
	return twice1(ctx, t, "Queues", persistence.Store.Queues, tenant)
}

// ParkedWork implements persistence.RunViews.
func (t *Twin) ParkedWork(ctx context.Context, tenant string) ([]persistence.ParkedRow, error) {
	return twice1(ctx, t, "ParkedWork", persistence.Store.ParkedWork, tenant)
}

// Workflows implements persistence.RunViews.
func (t *Twin) Workflows(ctx context.Context) ([]persistence.DefinitionRow, error) {
	return twice(ctx, t, "Workflows", nil, func(ctx context.Context, s persistence.Store) ([]persistence.DefinitionRow, error) {
		return s.Workflows(ctx)
	})
}

// Pods implements persistence.RunViews. No session leads the simulated database.
func (t *Twin) Pods(ctx context.Context) ([]persistence.PodRow, error) {
	return twice(ctx, t, "Pods", nil, func(ctx context.Context, s persistence.Store) ([]persistence.PodRow, error) {
		pods, err := s.Pods(ctx)
		for i := range pods {
			pods[i].Leads = false
		}
		return pods, err
	})
}
