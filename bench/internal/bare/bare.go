package bare

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

// SQLEntry is the limit of the database.
func SQLEntry() peer.Entry {
	return entry("limit-sql", "the leanest statements", false)
}

// StoreEntry is the limit of the product's own statements.
func StoreEntry() peer.Entry {
	return entry("limit-store", "persistence/postgres.Store without actors", true)
}

func entry(name, says string, store bool) peer.Entry {
	setting := peer.Setting{
		Name: peer.Default, Says: says + ", 1 claimer, 2 writers by run, batches of at most 1000, 4000 tasks in flight",
		For: []peer.Kind{peer.Throughput, peer.Graph, peer.Drain, peer.Latency}, Rate: 70_000, Runs: 12_000,
	}
	if store {
		setting.Extra = setting.For
	} else {
		setting.Says += "; across processes LISTEN and NOTIFY"
		setting.For = append(setting.For, peer.Across)
	}
	return peer.Entry{
		Name: name, Role: peer.Limit,
		Settings: []peer.Setting{setting},
		Shapes:   []peer.Shape{peer.Single, peer.Diamond, peer.Chain, peer.FanOut},
		New:      func(o peer.Options) peer.Peer { return &contestant{options: o, withStore: store} },
	}
}

type contestant struct {
	options   peer.Options
	withStore bool
	pool      *pgxpool.Pool
	loop      *loop
	ear       *ear
}

// Open implements peer.Peer.
func (c *contestant) Open(ctx context.Context) error {
	var err error
	if c.pool, err = pgxpool.New(ctx, c.options.URL); err != nil {
		return err
	}
	if c.options.Elsewhere {
		t, err := openLean(ctx, c.options.URL, 0)
		if err != nil {
			return err
		}
		t.tell = true
		c.loop = newLoop(t, c.options.Probe)
		return nil
	}
	if _, err := migrations.Migrate(ctx, c.pool, migrations.DefaultSchema); err != nil {
		return err
	}
	p, err := openProduct(ctx, c.pool, c.options.Shapes)
	if err != nil {
		return err
	}
	var t tables = p
	if !c.withStore {
		p.close()
		if t, err = openLean(ctx, c.options.URL, p.pod); err != nil {
			return err
		}
	}
	c.loop = newLoop(t, c.options.Probe)
	return nil
}

// openProduct registers the workflows and joins as a pod, whose lease outlives
// the measurement.
func openProduct(ctx context.Context, pool *pgxpool.Pool, shapes []peer.Shape) (*product, error) {
	store, err := postgres.Open(ctx, postgres.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	p := &product{store: store}
	if p.graphs, err = graphs(shapes); err != nil {
		return nil, err
	}
	numbers, err := store.RegisterDefinitions(ctx, slices.Collect(maps.Values(p.graphs)), []string{queue})
	if err != nil {
		return nil, err
	}
	p.handlers = slices.Concat(numbers...)
	p.pod, _, err = store.JoinPod(ctx, persistence.PodInfo{
		Name: "bench", Handlers: p.handlers, Queues: []string{queue}, Slots: window, TTL: time.Hour,
	})
	return p, err
}

// Start implements peer.Peer.
func (c *contestant) Start(ctx context.Context) error {
	if c.options.Elsewhere {
		c.loop.startIntake(context.WithoutCancel(ctx))
		return nil
	}
	var err error
	if c.ear, err = listen(ctx, c.options.URL, c.loop.wake); err != nil {
		return err
	}
	c.loop.start(context.WithoutCancel(ctx))
	return nil
}

// Enqueue implements peer.Peer.
func (c *contestant) Enqueue(ctx context.Context, job peer.Job) error {
	return c.loop.enqueue(ctx, job)
}

// Bulk implements peer.Peer.
func (c *contestant) Bulk(ctx context.Context, jobs []peer.Job) error {
	return peer.Spread(ctx, writers, slices.Collect(slices.Chunk(jobs, triggerMax)), func(part []peer.Job) error {
		return c.loop.store(ctx, part)
	})
}

// UnfinishedSQL implements peer.Peer. States from 10 are final.
func (c *contestant) UnfinishedSQL() string {
	return `select count(*) from troupe.workflow_runs where state < 10`
}

// Close implements peer.Peer.
func (c *contestant) Close() {
	if c.ear != nil {
		c.ear.close()
	}
	c.loop.close()
	c.pool.Close()
}
