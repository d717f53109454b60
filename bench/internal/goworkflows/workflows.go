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

// node is the activity of every node of a diamond.
func (c *contestant) node(_ context.Context, job peer.Job, name string) (string, error) {
	switch name {
	case "a":
		c.options.Probe.Begin(job)
	case "d":
		c.options.Probe.End(job.ID)
	}
	return name, nil
}

func (c *contestant) diamond(ctx workflow.Context, job peer.Job) (string, error) {
	node := func(name string) workflow.Future[string] {
		return workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, c.node, job, name)
	}
	if _, err := node("a").Get(ctx); err != nil {
		return "", err
	}
	left, right := node("b"), node("c")
	for _, side := range []workflow.Future[string]{left, right} {
		if _, err := side.Get(ctx); err != nil {
			return "", err
		}
	}
	return node("d").Get(ctx)
}
