package dbos

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// Entry is DBOS Transact in the comparison.
func Entry() peer.Entry {
	every := []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Latency, peer.Across, peer.Idle, peer.Fairness}
	return peer.Entry{
		Name: "dbos",
		Settings: []peer.Setting{
			{Name: peer.Default, Says: "queue without a limit, poll 1s, pool of its own of 20", For: every, Rate: 4000, Runs: 800},
			{Name: "fast", Says: "queue with 1000 workers, poll 10ms", For: []peer.Kind{peer.Throughput, peer.Graph, peer.Drain}, Rate: 4000, Runs: 800},
			{
				Name: "direct", Says: "runs in the process that triggers, without a queue",
				For: []peer.Kind{peer.Throughput, peer.Graph, peer.Latency}, Extra: []peer.Kind{peer.Throughput, peer.Graph}, Rate: 4000, Runs: 800,
			},
			{Name: "lowlat", Says: "queue without a limit, poll 1ms", For: []peer.Kind{peer.Latency, peer.Across}, Rate: 4000, Runs: 800},
			{
				Name: "fair", Says: "partitioned queue, one partition a tenant, 1000 workers, at most half of them a tenant, poll 10ms",
				For: []peer.Kind{peer.Fairness}, Rate: 2000, Runs: 800,
			},
		},
		Shapes: []peer.Shape{peer.Single, peer.Diamond, peer.Chain, peer.FanOut, peer.Wait, peer.Parent, peer.Machine},
		New:    func(o peer.Options) peer.Peer { return &contestant{options: o} },
	}
}

const (
	queueName = "bench"
	graphName = "graph" // of the workflow that does every shape but single ones
)

func workflowName(shape peer.Shape) string {
	switch shape { //nolint:exhaustive // the others are graphs
	case peer.Single, peer.Wait, peer.Parent:
		return string(shape)
	}
	return graphName
}

type contestant struct {
	options peer.Options
	pool    *pgxpool.Pool
	app     dbos.Context
}

// Open implements peer.Peer.
func (c *contestant) Open(ctx context.Context) error {
	pool, err := pgxpool.ParseConfig(c.options.URL)
	if err != nil {
		return err
	}
	pool.MaxConns = int32(c.options.Conns)
	if c.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return err
	}
	config := dbos.Config{AppName: "bench", Logger: slog.New(slog.DiscardHandler), ApplicationVersion: "v1"}
	own := config
	own.DatabaseURL = c.options.URL
	if c.options.Setting == peer.Default {
		config = own
	} else {
		// A context on the URL makes the tables; one on a given pool does not.
		first, err := dbos.NewContext(ctx, own)
		if err != nil {
			return err
		}
		_ = dbos.Shutdown(first, time.Second) // it has done its work
		config.SystemDBPool = c.pool
	}
	if c.app, err = dbos.NewContext(context.WithoutCancel(ctx), config); err != nil {
		return err
	}
	dbos.RegisterWorkflow(c.app, c.single, dbos.WithWorkflowName(string(peer.Single)))
	dbos.RegisterWorkflow(c.app, c.graph, dbos.WithWorkflowName(graphName))
	dbos.RegisterWorkflow(c.app, c.wait, dbos.WithWorkflowName(string(peer.Wait)))
	dbos.RegisterWorkflow(c.app, c.parent, dbos.WithWorkflowName(string(peer.Parent)))
	dbos.RegisterWorkflow(c.app, item)
	for i := range c.options.Twins {
		dbos.RegisterWorkflow(c.app, c.graph, dbos.WithInstance(twin(i)))
	}
	_, err = dbos.RegisterQueue(c.app, queueName, c.queue()...)
	return err
}

func (c *contestant) queue() []dbos.QueueOption {
	const workers = 1000
	switch c.options.Setting {
	case "fast":
		return []dbos.QueueOption{dbos.WithWorkerConcurrency(workers), dbos.WithQueueBasePollingInterval(10 * time.Millisecond)}
	case "lowlat":
		return []dbos.QueueOption{dbos.WithQueueBasePollingInterval(time.Millisecond)}
	case "fair":
		return []dbos.QueueOption{
			dbos.WithWorkerConcurrency(workers), dbos.WithQueueBasePollingInterval(10 * time.Millisecond),
			dbos.WithPartitionWorkerConcurrency(workers / 2),
		}
	}
	return nil
}

// Start implements peer.Peer.
func (c *contestant) Start(context.Context) error {
	if c.options.Elsewhere {
		return nil // a context that is not launched enqueues only
	}
	return dbos.Launch(c.app)
}

// Enqueue implements peer.Peer.
func (c *contestant) Enqueue(_ context.Context, job peer.Job) error {
	var err error
	switch {
	case c.options.Setting != "direct":
		_, err = dbos.Enqueue[string](c.app, queueName, workflowName(job.Shape), job, append(c.partition(job), named(job)...)...)
	case job.Shape == peer.Wait:
		_, err = dbos.RunWorkflow(c.app, c.wait, job, dbos.WithWorkflowID(waiting(job)))
	case job.Shape == peer.Parent:
		_, err = dbos.RunWorkflow(c.app, c.parent, job)
	case job.Shape == peer.Single:
		_, err = dbos.RunWorkflow(c.app, c.single, job)
	default:
		_, err = dbos.RunWorkflow(c.app, c.graph, job)
	}
	return err
}

// waiting is the id of a workflow that waits for a signal.
func waiting(job peer.Job) string { return fmt.Sprint("wait-", job.ID) }

func named(job peer.Job) []dbos.EnqueueOption {
	if job.Shape != peer.Wait {
		return nil
	}
	return []dbos.EnqueueOption{dbos.WithEnqueueWorkflowID(waiting(job))}
}

// Signal implements peer.Signaler.
func (c *contestant) Signal(_ context.Context, job peer.Job) error {
	return dbos.Send(c.app, waiting(job), "x", goOn)
}

func (c *contestant) partition(job peer.Job) []dbos.EnqueueOption {
	if c.options.Setting != "fair" {
		return nil
	}
	return []dbos.EnqueueOption{dbos.WithEnqueueQueuePartitionKey(job.Tenant)}
}

// Bulk implements peer.Peer: 500 jobs share a transaction, on 8 connections.
func (c *contestant) Bulk(ctx context.Context, jobs []peer.Job) error {
	const batch, callers = 500, 8
	return peer.Spread(ctx, callers, slices.Collect(slices.Chunk(jobs, batch)), func(part []peer.Job) error {
		return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			for _, job := range part {
				options := append(c.partition(job), dbos.WithEnqueueTransaction(tx))
				if _, err := dbos.Enqueue[string](c.app, queueName, workflowName(job.Shape), job, options...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// UnfinishedSQL implements peer.Peer.
func (c *contestant) UnfinishedSQL() string {
	return `select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')`
}

// CloneSQL implements peer.Cloner.
func (c *contestant) CloneSQL() []string {
	return []string{peer.Clone("dbos.workflow_status", map[string]string{"workflow_uuid": "gen_random_uuid()::text"})}
}

// Close implements peer.Peer.
func (c *contestant) Close() {
	_ = dbos.Shutdown(c.app, 2*time.Second) // what it leaves behind goes with the database
	c.pool.Close()
}
