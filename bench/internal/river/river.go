package river

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// Entry is River in the comparison.
func Entry() peer.Entry {
	every := []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Latency, peer.Across, peer.Idle, peer.Fairness}
	return peer.Entry{
		Name: "river",
		Settings: []peer.Setting{
			{Name: peer.Default, Says: "MaxWorkers 100 (River has no default), FetchCooldown 100ms, FetchPollInterval 1s", For: every, Rate: 1000, Runs: 180},
			{
				Name: "fast", Says: "as River's own bench command: MaxWorkers 2000, FetchCooldown 2ms, FetchPollInterval 20ms",
				For: []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Fairness}, Rate: 40_000, Runs: 400,
			},
			{
				Name: "lowlat", Says: "MaxWorkers 100, FetchCooldown 1ms (its minimum), FetchPollInterval 1s",
				For: []peer.Kind{peer.Graph, peer.Latency, peer.Across}, Extra: []peer.Kind{peer.Graph}, Rate: 20_000, Runs: 400,
			},
		},
		Shapes: []peer.Shape{peer.Single, peer.Diamond, peer.Chain, peer.FanOut},
		New:    func(o peer.Options) peer.Peer { return &contestant{options: o} },
	}
}

type contestant struct {
	options peer.Options
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	working bool
}

const joinTable = `create table if not exists joins (run bigint primary key, pending int not null)`

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
	driver := riverpgxv5.New(c.pool)
	logger := slog.New(slog.DiscardHandler)
	if !c.options.Elsewhere {
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
		if err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		if _, err := c.pool.Exec(ctx, joinTable); err != nil {
			return err
		}
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &singleWorker{probe: c.options.Probe})
	river.AddWorker(workers, &nodeWorker{contestant: c})
	for i := range c.options.Twins {
		river.AddWorkerArgs(workers, twinArgs(i), &twinWorker{})
	}
	c.client, err = river.NewClient(driver, c.config(logger, workers))
	return err
}

func (c *contestant) config(logger *slog.Logger, workers *river.Workers) *river.Config {
	queue := river.QueueConfig{MaxWorkers: 100}
	config := &river.Config{Logger: logger, Workers: workers}
	switch c.options.Setting {
	case "fast":
		queue.MaxWorkers = 2000
		config.FetchCooldown, config.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	case "lowlat":
		config.FetchCooldown = river.FetchCooldownMin
	}
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: queue}
	return config
}

// Start implements peer.Peer.
func (c *contestant) Start(ctx context.Context) error {
	if c.options.Elsewhere {
		return nil // a client that is not started inserts only
	}
	c.working = true
	return c.client.Start(context.WithoutCancel(ctx))
}

// Enqueue implements peer.Peer.
func (c *contestant) Enqueue(ctx context.Context, job peer.Job) error {
	if job.Shape == peer.Single {
		_, err := c.client.Insert(ctx, singleArgs{job}, nil)
		return err
	}
	root := nodeArgs{Run: job.ID, Shape: job.Shape}
	widest := slices.Max(job.Shape.Layers())
	if widest == 1 {
		_, err := c.client.Insert(ctx, root, nil)
		return err
	}
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into joins values ($1, $2)`, job.ID, widest); err != nil {
			return err
		}
		_, err := c.client.InsertTx(ctx, tx, root, nil)
		return err
	})
}

// Bulk implements peer.Peer with COPY.
func (c *contestant) Bulk(ctx context.Context, jobs []peer.Job) error {
	const batch = 5000
	for part := range slices.Chunk(jobs, batch) {
		params := make([]river.InsertManyParams, len(part))
		for i, job := range part {
			params[i].Args = singleArgs{job}
		}
		if _, err := c.client.InsertManyFast(ctx, params); err != nil {
			return err
		}
	}
	return nil
}

// UnfinishedSQL implements peer.Peer.
func (c *contestant) UnfinishedSQL() string {
	return `select count(*) from river_job where state in ('available', 'running', 'scheduled', 'retryable', 'pending')`
}

// Close implements peer.Peer.
func (c *contestant) Close() {
	if c.working {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.client.StopAndCancel(ctx) // what it leaves behind goes with the database
	}
	c.pool.Close()
}
