package troupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/migrations"
)

// Entry is troupe in the comparison.
func Entry() peer.Entry {
	every := []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Latency, peer.Across, peer.Idle, peer.Fairness}
	fast := []peer.Kind{peer.Throughput, peer.Drain}
	return peer.Entry{
		Name: "troupe",
		Role: peer.Ours,
		Settings: []peer.Setting{
			{
				Name: peer.Default, Says: fmt.Sprintf("no field of Config set: %s slots, claims of at most %s tasks", usual("Slots"), usual("ClaimBatch")),
				For: every, Rate: 12_000, Runs: 3000,
			},
			{
				Name: "fast", Says: "Slots 1000, ClaimBatch 1000", Rate: 40_000, Runs: 8000,
				For: []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Fairness},
			},
			{Name: "wide", Says: "Slots 4000, ClaimBatch 1000", For: fast, Extra: fast, Rate: 40_000, Runs: 8000},
		},
		Shapes: []peer.Shape{peer.Single, peer.Diamond, peer.Chain, peer.FanOut, peer.Orders, peer.Nap, peer.Wait, peer.Parent, peer.Machine},
		New:    func(o peer.Options) peer.Peer { return &contestant{options: o} },
	}
}

// usual is what a field of Config is without being set.
func usual(field string) string {
	for _, s := range troupe.Settings() {
		if s.Field == field {
			return s.Default
		}
	}
	panic("Config has no field " + field)
}

// contestant is one pod.
type contestant struct {
	options peer.Options
	pool    *pgxpool.Pool
	pod     *pod
}

// Open implements peer.Peer.
func (c *contestant) Open(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(c.options.URL)
	if err != nil {
		return err
	}
	config.MaxConns = int32(c.options.Conns)
	if c.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if !c.options.Elsewhere {
		_, err = migrations.Migrate(ctx, c.pool, migrations.DefaultSchema)
	}
	return err
}

// Start implements peer.Peer.
func (c *contestant) Start(ctx context.Context) error {
	return c.enter(ctx, c.options.Elsewhere)
}

// enter starts a pod; one that is elsewhere serves another queue only, so that
// all it triggers is left to others.
func (c *contestant) enter(ctx context.Context, elsewhere bool) error {
	var config troupe.Config
	switch c.options.Setting {
	case "fast":
		config.Slots, config.ClaimBatch = 1000, 1000
	case "wide":
		config.Slots, config.ClaimBatch = 4000, 1000
	}
	if elsewhere {
		config.QueueSlots = map[string]int{"elsewhere": 1}
	}
	var err error
	c.pod, err = startPod(ctx, c.pool, config, c.options)
	return err
}

// stopGrace bounds the stop of a pod, which has nothing left to do then.
const stopGrace = 5 * time.Second

func (c *contestant) leave(ctx context.Context) error {
	if c.pod == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	err := c.pod.engine.Stop(ctx)
	c.pod = nil
	return err
}

// Enqueue implements peer.Peer.
func (c *contestant) Enqueue(ctx context.Context, job peer.Job) error {
	if c.pod == nil {
		return errors.New("a pod triggers, and none was started")
	}
	return c.pod.trigger(ctx, job.Shape, []peer.Job{job})
}

// Signal implements peer.Signaler.
func (c *contestant) Signal(ctx context.Context, job peer.Job) error {
	return goOn.Send(ctx, c.pod.handles[peer.Wait].ByKey(job.Tenant, key(job)), "x")
}

// Bulk implements peer.Peer: 500 runs a call, on 4 goroutines. Before Start
// they come from a pod that serves another queue.
func (c *contestant) Bulk(ctx context.Context, jobs []peer.Job) (err error) {
	if c.pod == nil {
		if err := c.enter(ctx, true); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.leave(ctx)) }()
	}
	const callers = 4
	return peer.Spread(ctx, callers, batches(jobs), func(part []peer.Job) error {
		return c.pod.trigger(ctx, part[0].Shape, part)
	})
}

// batches are what one call can trigger: jobs of one tenant and shape.
func batches(jobs []peer.Job) [][]peer.Job {
	var parts [][]peer.Job
	for len(jobs) > 0 {
		n := slices.IndexFunc(jobs, func(j peer.Job) bool { return j.Tenant != jobs[0].Tenant || j.Shape != jobs[0].Shape })
		if n < 0 {
			n = len(jobs)
		}
		n = min(n, troupe.RunManyMax)
		parts, jobs = append(parts, jobs[:n]), jobs[n:]
	}
	return parts
}

// UnfinishedSQL implements peer.Peer. States from 10 are final.
func (c *contestant) UnfinishedSQL() string {
	return `select count(*) from troupe.workflow_runs where state < 10`
}

// Close implements peer.Peer.
func (c *contestant) Close() {
	_ = c.leave(context.Background()) // what it leaves behind goes with the database
	c.pool.Close()
}
