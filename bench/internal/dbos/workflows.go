package dbos

import (
	"context"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// single is a workflow without steps: the cheapest durable job there is.
func (c *contestant) single(_ dbos.Context, job peer.Job) (string, error) {
	c.options.Probe.Begin(job)
	c.options.Probe.End(job.ID)
	return job.Payload, nil
}

func (c *contestant) diamond(ctx dbos.Context, job peer.Job) (string, error) {
	node := func(name string) dbos.Step[string] {
		return func(context.Context) (string, error) {
			switch name {
			case "a":
				c.options.Probe.Begin(job)
			case "d":
				c.options.Probe.End(job.ID)
			}
			return name, nil
		}
	}
	if _, err := dbos.RunAsStep(ctx, node("a")); err != nil {
		return "", err
	}
	left, err := dbos.Go(ctx, node("b"))
	if err != nil {
		return "", err
	}
	right, err := dbos.Go(ctx, node("c"))
	if err != nil {
		return "", err
	}
	for _, side := range []<-chan dbos.StepOutcome[string]{left, right} {
		if outcome := <-side; outcome.Err != nil {
			return "", outcome.Err
		}
	}
	return dbos.RunAsStep(ctx, node("d"))
}
