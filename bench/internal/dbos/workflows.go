package dbos

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// single is a workflow without steps: the cheapest durable job there is.
func (c *contestant) single(_ dbos.Context, job peer.Job) (string, error) {
	c.options.Probe.Begin(job)
	c.options.Probe.End(job.ID)
	return job.Payload, nil
}

// graph runs the steps of a layer at once, and one layer after the other.
func (c *contestant) graph(ctx dbos.Context, job peer.Job) (string, error) {
	layers := job.Shape.Layers()
	for i, width := range layers {
		node := func(context.Context) (string, error) {
			if i == 0 {
				c.options.Probe.Begin(job)
			}
			if i == len(layers)-1 {
				c.options.Probe.End(job.ID)
			}
			return job.Shape.Output(), nil
		}
		if err := inParallel(ctx, width, node); err != nil {
			return "", err
		}
	}
	return "x", nil
}

func inParallel(ctx dbos.Context, width int, node dbos.Step[string]) error {
	if width == 1 {
		_, err := dbos.RunAsStep(ctx, node)
		return err
	}
	sides := make([]<-chan dbos.StepOutcome[string], width)
	for n := range sides {
		var err error
		if sides[n], err = dbos.Go(ctx, node); err != nil {
			return err
		}
	}
	for _, side := range sides {
		if outcome := <-side; outcome.Err != nil {
			return outcome.Err
		}
	}
	return nil
}

// goOn is the topic of the message that a wait ends with.
const goOn = "go-on"

// wait has a step, waits for a message, and has another step.
func (c *contestant) wait(ctx dbos.Context, job peer.Job) (string, error) {
	_, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) {
		c.options.Probe.Begin(job)
		return "x", nil
	})
	if err != nil {
		return "", err
	}
	if _, err := dbos.Recv[string](ctx, goOn, time.Hour); err != nil {
		return "", err
	}
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) {
		c.options.Probe.End(job.ID)
		return "x", nil
	})
}

// item is a child workflow of one step.
func item(ctx dbos.Context, in string) (string, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return in, nil })
}

// parent has a step, then child workflows, which begin in the same process without a queue, and
// another step when all have ended.
func (c *contestant) parent(ctx dbos.Context, job peer.Job) (string, error) {
	first, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) {
		c.options.Probe.Begin(job)
		return "x", nil
	})
	if err != nil {
		return "", err
	}
	items := make([]dbos.WorkflowHandle[string], peer.Children)
	for i := range items {
		if items[i], err = dbos.RunWorkflow(ctx, item, first); err != nil {
			return "", err
		}
	}
	for _, item := range items {
		if _, err := item.GetResult(); err != nil {
			return "", err
		}
	}
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) {
		c.options.Probe.End(job.ID)
		return "x", nil
	})
}

// twin is the name of an instance of the workflow.
type twin int

// ConfigName implements dbos.ConfiguredInstance.
func (t twin) ConfigName() string { return fmt.Sprintf("twin-%d", t) }
