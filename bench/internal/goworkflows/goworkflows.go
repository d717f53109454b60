package goworkflows

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/postgres"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// Entry is go-workflows in the comparison.
func Entry() peer.Entry {
	every := []peer.Kind{peer.Throughput, peer.Drain, peer.Latency, peer.Across, peer.Idle, peer.Fairness}
	return peer.Entry{
		Name: "go-workflows",
		Settings: []peer.Setting{
			{Name: peer.Default, Says: "2+2 pollers every 200ms, no limit on parallel tasks, 2 idle connections", For: every, Rate: 300, Runs: 40},
			{
				Name: "fast", Says: "woken in process (monoprocess), 8+8 pollers, 100 parallel tasks, connections kept",
				For: []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Fairness}, Extra: []peer.Kind{peer.Graph}, Rate: 900, Runs: 150,
			},
			{
				Name: "lowlat", Says: "woken in process (monoprocess), 2+2 pollers, connections kept",
				For: []peer.Kind{peer.Latency}, Rate: 900, Runs: 150,
			},
			{Name: "poll", Says: "2+2 pollers every 1ms, connections kept", For: []peer.Kind{peer.Across}, Rate: 900, Runs: 150},
		},
		Shapes: []peer.Shape{peer.Single, peer.Diamond, peer.Chain, peer.FanOut, peer.Wait, peer.Parent, peer.Machine},
		New:    func(o peer.Options) peer.Peer { return &contestant{options: o} },
	}
}

type contestant struct {
	options peer.Options
	backend backend.Backend
	worker  *worker.Worker
	client  *client.Client
	stop    context.CancelFunc
}

// Open implements peer.Peer.
func (c *contestant) Open(context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	options := worker.DefaultOptions
	switch c.options.Setting {
	case "fast":
		c.backend = monoprocess.NewMonoprocessBackend(c.backend)
		options.WorkflowPollers, options.ActivityPollers = 8, 8
		options.MaxParallelWorkflowTasks, options.MaxParallelActivityTasks = 100, 100
	case "lowlat":
		c.backend = monoprocess.NewMonoprocessBackend(c.backend)
	case "poll":
		options.WorkflowPollingInterval, options.ActivityPollingInterval = time.Millisecond, time.Millisecond
	}
	c.worker, c.client = worker.New(c.backend, &options), client.New(c.backend)
	for _, w := range []workflow.Workflow{c.single, c.graph, c.wait, c.parent, item} {
		if err := c.worker.RegisterWorkflow(w); err != nil {
			return err
		}
	}
	for i := range c.options.Twins {
		if err := c.worker.RegisterWorkflow(c.graph, registry.WithName(fmt.Sprintf("twin-%d", i))); err != nil {
			return err
		}
	}
	for _, activity := range []workflow.Activity{c.edge, c.node, same} {
		if err := c.worker.RegisterActivity(activity); err != nil {
			return err
		}
	}
	return nil
}

func (c *contestant) connect() error {
	address, err := url.Parse(c.options.URL)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		return err
	}
	password, _ := address.User.Password()
	c.backend = postgres.NewPostgresBackend(
		address.Hostname(), port, address.User.Username(), password, address.Path[1:],
		postgres.WithApplyMigrations(!c.options.Elsewhere),
		postgres.WithBackendOptions(backend.WithLogger(slog.New(slog.DiscardHandler))),
		postgres.WithPostgresOptions(func(db *sql.DB) {
			db.SetMaxOpenConns(c.options.Conns)
			if c.options.Setting != peer.Default {
				db.SetMaxIdleConns(c.options.Conns) // database/sql keeps 2 otherwise
			}
		}))
	return nil
}

// Start implements peer.Peer.
func (c *contestant) Start(ctx context.Context) error {
	if c.options.Elsewhere {
		return nil // the client needs no worker
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return c.worker.Start(ctx)
}

// Enqueue implements peer.Peer.
func (c *contestant) Enqueue(ctx context.Context, job peer.Job) error {
	options := client.WorkflowInstanceOptions{InstanceID: instance(job)}
	function := c.graph
	switch job.Shape { //nolint:exhaustive // the others are graphs
	case peer.Single:
		function = c.single
	case peer.Wait:
		function = c.wait
	case peer.Parent:
		function = c.parent
	}
	_, err := c.client.CreateWorkflowInstance(ctx, options, function, job)
	return err
}

// Signal implements peer.Signaler.
func (c *contestant) Signal(ctx context.Context, job peer.Job) error {
	return c.client.SignalWorkflow(ctx, instance(job), goOn, "x")
}

func instance(job peer.Job) string { return fmt.Sprint(job.Shape, job.ID, job.Tenant) }

// Bulk implements peer.Peer with 16 concurrent calls: there is none for many.
func (c *contestant) Bulk(ctx context.Context, jobs []peer.Job) error {
	const callers = 16
	return peer.Spread(ctx, callers, jobs, func(job peer.Job) error { return c.Enqueue(ctx, job) })
}

// UnfinishedSQL implements peer.Peer.
func (c *contestant) UnfinishedSQL() string {
	return `select count(*) from instances where completed_at is null`
}

// CloneSQL implements peer.Cloner.
func (c *contestant) CloneSQL() []string {
	instance := map[string]string{"instance_id": "'c' || g", "id": ""}
	event := map[string]string{"instance_id": "'c' || g", "event_id": "'c' || g", "id": "", "sequence_id": ""}
	attributes := map[string]string{"instance_id": "'c' || g", "event_id": "'c' || g", "id": ""}
	return []string{peer.Clone("instances", instance), peer.Clone("pending_events", event), peer.Clone("attributes", attributes)}
}

// Close implements peer.Peer.
func (c *contestant) Close() {
	if c.stop != nil {
		c.stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.worker.WaitForCompletion() // what it leaves behind goes with the database
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
		}
	}
	_ = c.backend.Close()
}
