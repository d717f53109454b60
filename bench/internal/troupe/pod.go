package troupe

import (
	"context"
	"fmt"
	"slices"
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

func startPod(ctx context.Context, pool *pgxpool.Pool, config troupe.Config, o peer.Options) (*pod, error) {
	engine, err := troupe.New(pool, config)
	if err != nil {
		return nil, err
	}
	p := &pod{engine: engine, handles: map[peer.Shape]*troupe.Handle[peer.Job, string]{}}
	for _, shape := range o.Shapes {
		if p.handles[shape], err = troupe.Register(engine, workflowOf(shape, o.Probe)); err != nil {
			return nil, err
		}
	}
	if slices.Contains(o.Shapes, peer.Parent) {
		if _, err := troupe.Register(engine, item); err != nil {
			return nil, err
		}
	}
	for i := range o.Twins {
		if _, err := troupe.Register(engine, graph(fmt.Sprintf("twin-%d", i), peer.Diamond, o.Probe)); err != nil {
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
	if shape == peer.Wait {
		options = append(options, troupe.Key(key(jobs[0])))
	}
	var err error
	if len(jobs) == 1 {
		_, err = handle.RunNoWait(ctx, jobs[0], options...)
	} else {
		_, err = handle.RunMany(ctx, jobs, options...)
	}
	return err
}

func workflowOf(shape peer.Shape, probe *peer.Probe) troupe.Definition[peer.Job, string] {
	switch shape {
	case peer.Single:
		return single(probe)
	case peer.Orders:
		return orders(probe)
	case peer.Nap:
		return nap(probe)
	case peer.Wait:
		return wait(probe)
	case peer.Parent:
		return parent(probe)
	case peer.Machine:
		return machine(probe)
	case peer.Diamond, peer.Chain, peer.FanOut: // graphs
	}
	return graph(string(shape), shape, probe)
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

func graph(name string, shape peer.Shape, probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	layers := shape.Layers()
	return troupe.Define(name, func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		var layer []troupe.StepRef[string]
		for i, width := range layers {
			before := layer
			layer = nil
			for n := range width {
				layer = append(layer, node(b, fmt.Sprintf("step-%d-%d", i, n), before, func(job peer.Job) string {
					if i == 0 {
						probe.Begin(job)
					}
					if i == len(layers)-1 {
						probe.End(job.ID)
					}
					return "x"
				}))
			}
		}
		return layer[0]
	})
}

// node declares a step that waits for parents, as an embedder would.
func node(
	b *troupe.Builder[peer.Job], name string, parents []troupe.StepRef[string], do func(peer.Job) string,
) troupe.StepRef[string] {
	switch len(parents) {
	case 0:
		return troupe.Step0(b, name, func(_ context.Context, job peer.Job) (string, error) { return do(job), nil })
	case 1:
		return troupe.Step1(b, name, func(_ context.Context, job peer.Job, _ string) (string, error) { return do(job), nil }, parents[0])
	case 2:
		return troupe.Step2(b, name, func(_ context.Context, job peer.Job, _, _ string) (string, error) { return do(job), nil },
			parents[0], parents[1])
	}
	return troupe.StepN(b, name, func(needs *troupe.Needs) func(context.Context, peer.Job, troupe.Values) (string, error) {
		for _, parent := range parents {
			troupe.Need(needs, parent)
		}
		return func(_ context.Context, job peer.Job, _ troupe.Values) (string, error) { return do(job), nil }
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

// goOn is the signal that a wait ends with.
var goOn = troupe.NewSignal[string]("go-on")

// key is that of a run which gets a signal.
func key(job peer.Job) string { return fmt.Sprint("wait-", job.ID) }

func wait(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("wait", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		first := troupe.Step0(b, "first", func(_ context.Context, job peer.Job) (string, error) {
			probe.Begin(job)
			return "x", nil
		})
		told := troupe.WaitSignal(b, "told", goOn, troupe.After(first))
		return troupe.Step1(b, "last", func(_ context.Context, job peer.Job, _ string) (string, error) {
			probe.End(job.ID)
			return "x", nil
		}, told)
	})
}

// item is the workflow of a child run.
var item = troupe.Define("item", func(b *troupe.Builder[string]) troupe.StepRef[string] {
	return troupe.Step0(b, "only", func(_ context.Context, in string) (string, error) { return in, nil })
})

func parent(probe *peer.Probe) *troupe.Workflow[peer.Job, string] {
	return troupe.Define("parent", func(b *troupe.Builder[peer.Job]) troupe.StepRef[string] {
		first := troupe.Step0(b, "first", func(_ context.Context, job peer.Job) (string, error) {
			probe.Begin(job)
			return "x", nil
		})
		items := make([]troupe.StepRef[string], peer.Children)
		for i := range items {
			items[i] = troupe.Child(b, fmt.Sprintf("item-%d", i), item, first)
		}
		return node(b, "last", items, func(job peer.Job) string {
			probe.End(job.ID)
			return "x"
		})
	})
}
