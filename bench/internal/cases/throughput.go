package cases

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/server"
)

// jobs are n single-step jobs of a tenant.
func jobs(n int, tenant string) []peer.Job {
	list := make([]peer.Job, n)
	for i := range list {
		list[i] = peer.Job{ID: int64(i), Tenant: tenant, Shape: peer.Single}
	}
	return list
}

// jobsMin is the least that is drained: fewer are over before the worker runs.
const jobsMin = 300

func drain(ctx context.Context, b *Bench) ([]Figure, error) {
	n := max(jobsMin, int(float64(b.setting.Rate)*b.size.drain.Seconds()))
	p, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.Bulk(ctx, jobs(n, "")); err != nil {
		return nil, err
	}
	if err := b.analyze(ctx); err != nil {
		return nil, err
	}
	if err := pause(ctx, reported); err != nil {
		return nil, err
	}
	server.ResetPeak()
	before, err := b.usage(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	if err := b.probe.Await(ctx, 1); err != nil {
		return nil, err
	}
	if err := b.look(ctx, p, int64(n)-1); err != nil {
		return nil, err
	}
	start := time.Since(began)
	if err := b.finished(ctx, p, int64(n)); err != nil {
		return nil, err
	}
	took := time.Since(began)
	costs, err := b.costs(ctx, p, before, float64(n))
	return append([]Figure{
		{Value: float64(n) / took.Seconds(), Unit: "jobs" + perSecond, Higher: true},
		{Name: "start", Value: inMS(start), Unit: milliseconds},
		{Name: "start-share", Value: 100 * start.Seconds() / took.Seconds(), Unit: "% of the time"},
	}, costs...), err
}

const (
	// openMax bounds the jobs that are triggered and have not run. It is less
	// for slow peers: one that stores faster than it works would be waited for
	// after all clients have ended.
	openMax = 16_000
	// openMin is enough to keep all workers busy.
	openMin = 64
)

// openFor is how many jobs of a shape may be open.
func openFor(s peer.Setting, shape peer.Shape, lasts time.Duration) int {
	rate := s.Runs
	if shape == peer.Single {
		rate = s.Rate
	}
	return min(max(int(float64(rate)*lasts.Seconds()), openMin), openMax)
}

// load is clients that trigger until time is up.
type load struct {
	shape   peer.Shape
	clients int
	payload string
	open    chan struct{} // a permit per job that has not run
	next    atomic.Int64
}

// newLoad makes one of so many clients, with at most so many open jobs.
func newLoad(b *Bench, shape peer.Shape, clients, open int) *load {
	l := &load{shape: shape, clients: clients, open: make(chan struct{}, open)}
	b.probe.Finished = func(int64) {
		select {
		case <-l.open:
		default: // executed twice; its permit was given back
		}
	}
	return l
}

// trigger returns when all clients have ended.
func (l *load) trigger(ctx context.Context, p peer.Peer, lasts time.Duration) error {
	stop := time.After(lasts)
	over := make(chan struct{})
	errs := make(chan error, l.clients)
	var all sync.WaitGroup
	for range l.clients {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-ctx.Done():
					return
				case l.open <- struct{}{}:
				}
				job := peer.Job{ID: l.next.Add(1) - 1, Shape: l.shape, Payload: l.payload}
				if err := p.Enqueue(ctx, job); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	select {
	case <-stop:
	case <-ctx.Done():
	}
	close(over)
	all.Wait()
	return first(errs)
}

// warmUp is how long clients trigger before it counts: connections are opened,
// statements prepared, and the heap grows.
const warmUp = 300 * time.Millisecond

// flow measures clients that trigger jobs of a shape while the worker runs. The
// time is that from the first trigger to the last durable end. What jobs cost is
// that of the warm-up's too, because sessions report late.
func flow(shape peer.Shape, clients, payload int) func(context.Context, *Bench) ([]Figure, error) {
	return func(ctx context.Context, b *Bench) ([]Figure, error) {
		p, err := b.started(ctx, b.size.warm)
		if err != nil {
			return nil, err
		}
		l := newLoad(b, shape, clients, openFor(b.setting, shape, b.size.flow))
		l.payload = noise(payload)
		server.ResetPeak()
		before, err := b.usage(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := b.run(ctx, p, l, warmUp); err != nil {
			return nil, err
		}
		rate, err := b.run(ctx, p, l, b.size.flow)
		if err != nil {
			return nil, err
		}
		unit := "jobs"
		if shape.Steps() > 1 {
			unit = "runs"
		}
		costs, err := b.costs(ctx, p, before, float64(int64(shape.Steps())*l.next.Load()))
		return append([]Figure{{Value: rate, Unit: unit + perSecond, Higher: true}}, costs...), err
	}
}

// run triggers for a while, and returns the rate of jobs that ended.
func (b *Bench) run(ctx context.Context, p peer.Peer, l *load, lasts time.Duration) (float64, error) {
	done, earlier := b.probe.Done(), l.next.Load()
	began := time.Now()
	if err := l.trigger(ctx, p, lasts); err != nil {
		return 0, err
	}
	n := l.next.Load() - earlier
	err := b.finished(ctx, p, done+n)
	return float64(n) / time.Since(began).Seconds(), err
}

// noise is text that does not compress well, always the same.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range n {
		text.WriteByte(letters[random.IntN(len(letters))])
	}
	return text.String()
}

// backlog measures the rate of work while n jobs wait, or until they are done.
func backlog(n int) func(context.Context, *Bench) ([]Figure, error) {
	return func(ctx context.Context, b *Bench) ([]Figure, error) {
		p, err := b.open(ctx)
		if err != nil {
			return nil, err
		}
		if err := b.fill(ctx, p, n); err != nil {
			return nil, err
		}
		if err := b.analyze(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := p.Start(ctx); err != nil {
			return nil, err
		}
		for b.probe.Done() < int64(n) && time.Since(began) < b.size.window {
			if err := pause(ctx, time.Millisecond); err != nil {
				return nil, err
			}
		}
		done := b.probe.Done()
		if done == int64(n) {
			if err := b.finished(ctx, p, done); err != nil {
				return nil, err
			}
		}
		return []Figure{{Value: float64(done) / time.Since(began).Seconds(), Unit: "jobs" + perSecond, Higher: true}}, nil
	}
}

// fill enqueues n jobs, by copying rows where calls would take too long.
func (b *Bench) fill(ctx context.Context, p peer.Peer, n int) error {
	cloner, ok := p.(peer.Cloner)
	if !ok {
		return p.Bulk(ctx, jobs(n, ""))
	}
	if err := p.Bulk(ctx, jobs(1, "")); err != nil {
		return err
	}
	for _, query := range cloner.CloneSQL() {
		var statement string
		if err := b.watch.QueryRow(ctx, query).Scan(&statement); err != nil {
			return err
		}
		if _, err := b.watch.Exec(ctx, statement, n-1); err != nil {
			return err
		}
	}
	return nil
}
