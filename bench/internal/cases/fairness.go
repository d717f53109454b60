package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// tenants have a backlog; one more comes after them.
const tenants = 999

// fairness enqueues a backlog of many tenants, then a single job of another.
func fairness(ctx context.Context, b *Bench) ([]Figure, error) {
	var backlog []peer.Job
	for tenant := range tenants {
		backlog = append(backlog, jobs(b.size.tenant, fmt.Sprintf("tenant-%03d", tenant))...)
	}
	p, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.Bulk(ctx, backlog); err != nil {
		return nil, err
	}
	const small = "small"
	if err := p.Bulk(ctx, jobs(1, small)); err != nil {
		return nil, err
	}
	if err := b.analyze(ctx); err != nil {
		return nil, err
	}
	type sight struct {
		at     time.Time
		before int64
	}
	seen := make(chan sight, 1)
	b.probe.Started = func(job peer.Job) {
		if job.Tenant == small {
			seen <- sight{time.Now(), b.probe.Done()}
		}
	}
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	all := len(backlog) + 1
	if err := b.finished(ctx, p, int64(all)); err != nil {
		return nil, err
	}
	took := time.Since(began)
	got := <-seen
	return []Figure{
		{Name: "wait", Value: inMS(got.at.Sub(began)), Unit: milliseconds},
		{Name: "before", Value: 100 * float64(got.before) / float64(all), Unit: "% of backlog"},
		{Name: "throughput", Value: float64(all) / took.Seconds(), Unit: "jobs" + perSecond, Higher: true},
	}, nil
}
