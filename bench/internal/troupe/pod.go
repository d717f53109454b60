package troupe

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// pod is an engine with handles of the workflows that are measured.
type pod struct {
	engine  *troupe.Engine
	handles map[peer.Shape]*troupe.Handle[peer.Job, string]
}

func startPod(ctx context.Context, pool *pgxpool.Pool, config troupe.Config, probe *peer.Probe) (*pod, error) {
	engine, err := troupe.New(pool, config)
	if err != nil {
		return nil, err
	}
	p := &pod{engine: engine, handles: map[peer.Shape]*troupe.Handle[peer.Job, string]{}}
	for shape, workflow := range workflows(probe) {
		if p.handles[shape], err = troupe.Register(engine, workflow); err != nil {
			return nil, err
		}
	}
	return p, engine.Start(ctx)
}

// trigger starts jobs of one shape and tenant, all or none.
func (p *pod) trigger(ctx context.Context, shape peer.Shape, jobs []peer.Job) error {
	handle := p.handles[shape]
	if handle == nil {
		return fmt.Errorf("no workflow has the shape %q", shape)
	}
	var options []troupe.TriggerOption
	if tenant := jobs[0].Tenant; tenant != "" {
		options = append(options, troupe.Tenant(tenant))
	}
	var err error
	if len(jobs) == 1 {
		_, err = handle.RunNoWait(ctx, jobs[0], options...)
	} else {
		_, err = handle.RunMany(ctx, jobs, options...)
	}
	return err
}

func workflows(probe *peer.Probe) map[peer.Shape]*troupe.Workflow[peer.Job, string] {
	return map[peer.Shape]*troupe.Workflow[peer.Job, string]{
		peer.Single: single(probe), peer.Diamond: diamond(probe), peer.Orders: orders(probe), peer.Nap: nap(probe),
	}
}

func single(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("single", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		return troupe.Step0(b, "only", func(_ context.Context, job peer.Job) (string, error) {
			probe.Begin(job)
			probe.End(job.ID)
			return job.Payload, nil
		})
	})
}

func diamond(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("diamond", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", func(_ context.Context, job peer.Job) (string, error) {
			probe.Begin(job)
			return "a", nil
		})
		left := troupe.Step1(b, "b", func(context.Context, peer.Job, string) (string, error) { return "b", nil }, a)
		right := troupe.Step1(b, "c", func(context.Context, peer.Job, string) (string, error) { return "c", nil }, a)
		return troupe.Step2(b, "d", func(_ context.Context, job peer.Job, _, _ string) (string, error) {
			probe.End(job.ID)
			return "d", nil
		}, left, right)
	})
}

// orders is the workflow of examples/orders without its day of waiting. Every
// second order is valid and executes validate, charge, prepare, ship and
// finalize; the others execute validate, reject and finalize, and skip the rest.
func orders(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("orders", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		verdict := troupe.Step0(b, "validate", func(_ context.Context, job peer.Job) (bool, error) {
			probe.Begin(job)
			return job.ID%2 == 0, nil
		})
		valid, invalid := troupe.If(verdict, func(v bool) bool { return v })
		pass := func(_ context.Context, _ peer.Job, got string) (string, error) { return got, nil }
		payment := troupe.Step1(b, "charge", func(context.Context, peer.Job, bool) (string, error) { return "paid", nil }, verdict, valid,
			troupe.Retry{Attempts: 5, First: 200 * time.Millisecond})
		parcel := troupe.Step1(b, "prepare", pass, payment)
		shipment := troupe.Step1(b, "ship", pass, parcel)
		rejection := troupe.Step1(b, "reject", func(context.Context, peer.Job, bool) (string, error) { return "rejected", nil }, verdict, invalid)
		finalize := func(_ context.Context, job peer.Job, shipped, rejected troupe.Opt[string]) (string, error) {
			probe.End(job.ID)
			return shipped.Or(rejected.Or("")), nil
		}
		return troupe.Step2(b, "finalize", finalize, troupe.Maybe(shipment), troupe.Maybe(rejection))
	})
}

// napTime is how long a nap lasts.
const napTime = 500 * time.Millisecond

func nap(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("nap", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		asleep := troupe.Sleep(b, "asleep", napTime)
		return troupe.Step0(b, "awake", func(_ context.Context, job peer.Job) (string, error) {
			probe.End(job.ID)
			return "", nil
		}, troupe.After(asleep))
	})
}
