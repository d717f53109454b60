package goworkflows

import (
	"context"

	"github.com/cschleiden/go-workflows/workflow"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// single is a workflow without activities: the cheapest durable job there is.
func (c *contestant) single(ctx workflow.Context, job peer.Job) (string, error) {
	if !workflow.Replaying(ctx) {
		c.options.Probe.Begin(job)
		c.options.Probe.End(job.ID)
	}
	return job.Payload, nil
}

// node is the activity of every node of a graph.
func (c *contestant) node(_ context.Context, job peer.Job, layer int) (string, error) {
	if layer == 0 {
		c.options.Probe.Begin(job)
	}
	if layer == len(job.Shape.Layers())-1 {
		c.options.Probe.End(job.ID)
	}
	return job.Shape.Output(), nil
}

// graph runs the activities of a layer at once, and one layer after the other.
func (c *contestant) graph(ctx workflow.Context, job peer.Job) (string, error) {
	for i, width := range job.Shape.Layers() {
		nodes := make([]workflow.Future[string], width)
		for n := range nodes {
			nodes[n] = workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.node, job, i)
		}
		for _, node := range nodes {
			if _, err := node.Get(ctx); err != nil {
				return "", err
			}
		}
	}
	return "x", nil
}

// goOn is the signal that a wait ends with.
const goOn = "go-on"

// wait has an activity, waits for a signal, and has another activity.
func (c *contestant) wait(ctx workflow.Context, job peer.Job) (string, error) {
	if _, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.edge, job, false).Get(ctx); err != nil {
		return "", err
	}
	workflow.NewSignalChannel[string](ctx, goOn).Receive(ctx)
	return workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.edge, job, true).Get(ctx)
}

// edge is the activity on either side of a wait.
func (c *contestant) edge(_ context.Context, job peer.Job, last bool) (string, error) {
	if last {
		c.options.Probe.End(job.ID)
	} else {
		c.options.Probe.Begin(job)
	}
	return "x", nil
}

// item is a sub-workflow of one activity.
func item(ctx workflow.Context, in string) (string, error) {
	return workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, same, in).Get(ctx)
}

func same(_ context.Context, in string) (string, error) { return in, nil }

// parent has an activity, then sub-workflows at once, and another activity when all have ended.
func (c *contestant) parent(ctx workflow.Context, job peer.Job) (string, error) {
	first, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.edge, job, false).Get(ctx)
	if err != nil {
		return "", err
	}
	items := make([]workflow.Future[string], peer.Children)
	for i := range items {
		items[i] = workflow.CreateSubWorkflowInstance[string](ctx, workflow.DefaultSubWorkflowOptions, item, first)
	}
	for _, item := range items {
		if _, err := item.Get(ctx); err != nil {
			return "", err
		}
	}
	return workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.edge, job, true).Get(ctx)
}
