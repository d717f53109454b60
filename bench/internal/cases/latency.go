package cases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/report"
)

const (
	// every is the pace of an open loop: 50 a second.
	every = 20 * time.Millisecond
	// pacedFirst are thrown away: they open connections and prepare statements.
	pacedFirst = 20
)

// openLoop triggers at a steady pace, whether or not earlier jobs have started.
func openLoop(ctx context.Context, b *Bench) ([]Figure, error) {
	n := pacedFirst + b.size.samples
	b.probe.Mark(n)
	p, err := b.started(ctx, b.size.warm)
	if err != nil {
		return nil, err
	}
	asked, err := paced(ctx, p, n)
	if err != nil {
		return nil, err
	}
	if err := b.probe.Await(ctx, int64(n)); err != nil {
		return nil, err
	}
	return latencies(b.size.samples, func(i int64) int64 { return b.probe.Begun(i+pacedFirst) - asked[i+pacedFirst] }), nil
}

// paced triggers n jobs and returns when each call began.
func paced(ctx context.Context, p peer.Peer, n int) ([]int64, error) {
	asked, errs := make([]int64, n), make(chan error, n)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var calls sync.WaitGroup
	for i := range n {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		calls.Go(func() {
			asked[i] = peer.Now()
			if err := p.Enqueue(ctx, peer.Job{ID: int64(i), Shape: peer.Single}); err != nil {
				errs <- err
			}
		})
	}
	calls.Wait()
	return asked, first(errs)
}

// latencies are figures of n durations in nanoseconds.
func latencies(n int, of func(i int64) int64) []Figure {
	took := make([]float64, n)
	for i := range took {
		took[i] = inMS(time.Duration(of(int64(i))))
	}
	return []Figure{
		{Name: "p50", Value: report.Quantile(took, 0.50), Unit: milliseconds},
		{Name: "p99", Value: report.Quantile(took, 0.99), Unit: milliseconds},
	}
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const (
	// gap is how long everything rests before a job that is alone: not a
	// multiple of any system's poll interval.
	gap = 43 * time.Millisecond
	// aloneMax bounds the time of slow peers.
	aloneMax = 15 * time.Second
	// aloneMin is the least number of samples.
	aloneMin = 5
	// glance is how often the start of a job is looked for.
	glance = 50 * time.Microsecond
)

// alone measures one job at a time: until its function starts, or for a diamond
// its last one.
func alone(shape peer.Shape) func(context.Context, *Bench) ([]Figure, error) {
	return func(ctx context.Context, b *Bench) ([]Figure, error) {
		const throwAway = 3 // the first open connections and prepare statements
		n := b.size.alone + throwAway
		b.probe.Mark(n)
		p, err := b.started(ctx, b.size.warm)
		if err != nil {
			return nil, err
		}
		took := make([]int64, 0, n)
		for began := time.Now(); len(took) < n && (len(took) < aloneMin+throwAway || time.Since(began) < aloneMax); {
			if err := pause(ctx, gap); err != nil {
				return nil, err
			}
			id := int64(len(took))
			asked := peer.Now()
			if err := p.Enqueue(ctx, peer.Job{ID: id, Shape: shape}); err != nil {
				return nil, err
			}
			for b.probe.Last(id) == 0 {
				if err := pause(ctx, glance); err != nil {
					return nil, err
				}
			}
			took = append(took, b.probe.Last(id)-asked)
		}
		took = took[throwAway:]
		return latencies(len(took), func(i int64) int64 { return took[i] }), nil
	}
}

// signals measures signals to runs that wait for them, one after the other.
func signals(ctx context.Context, b *Bench) ([]Figure, error) {
	const throwAway = 3 // the first open connections and prepare statements
	n := b.size.alone + throwAway
	b.probe.Mark(n)
	p, err := b.started(ctx, b.size.warm)
	if err != nil {
		return nil, err
	}
	signaler, can := p.(peer.Signaler)
	if !can {
		return nil, errNoSignals
	}
	took := make([]int64, 0, n)
	for began := time.Now(); len(took) < n && (len(took) < aloneMin+throwAway || time.Since(began) < aloneMax); {
		job := peer.Job{ID: int64(len(took)), Shape: peer.Wait}
		if err := p.Enqueue(ctx, job); err != nil {
			return nil, err
		}
		for b.probe.Begun(job.ID) == 0 {
			if err := pause(ctx, glance); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, gap); err != nil { // it waits
			return nil, err
		}
		asked := peer.Now()
		if err := signaler.Signal(ctx, job); err != nil {
			return nil, err
		}
		for b.probe.Last(job.ID) == 0 {
			if err := pause(ctx, glance); err != nil {
				return nil, err
			}
		}
		took = append(took, b.probe.Last(job.ID)-asked)
	}
	took = took[throwAway:]
	return latencies(len(took), func(i int64) int64 { return took[i] }), nil
}

var errNoSignals = errors.New("the peer has a shape that waits for signals, and sends none")

// acquaintance is how long our pods have to learn of each other, which they do
// with their pulse.
const acquaintance = 6 * time.Second

// across triggers in this process what another one executes.
func across(ctx context.Context, b *Bench) ([]Figure, error) {
	worker, err := b.Across(ctx, b.Spec)
	if err != nil {
		return nil, err
	}
	defer func() { _ = worker.Close() }() // its end changes nothing any more
	p, err := b.openAt(ctx, b.Place.URL, true)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	calm := b.size.warm
	if b.Entry.Role == peer.Ours {
		calm = acquaintance
	}
	if err := pause(ctx, calm); err != nil {
		return nil, err
	}
	n := pacedFirst + b.size.samples
	asked, err := paced(ctx, p, n)
	if err != nil {
		return nil, err
	}
	began := make([]int64, n)
	for range n {
		select {
		case start, ok := <-worker.Starts():
			if !ok {
				return nil, errNoStart
			}
			began[start.Job] = start.At
		case <-ctx.Done():
			return nil, errNoStart
		}
	}
	return latencies(b.size.samples, func(i int64) int64 { return began[i+pacedFirst] - asked[i+pacedFirst] }), nil
}

// Work is what the other process does: it works until stop is closed, and tells
// of every job that starts.
func Work(ctx context.Context, b *Bench, tell func(Start), ready func(), stop <-chan struct{}) error {
	b.probe.Started = func(job peer.Job) { tell(Start{Job: job.ID, At: peer.Now()}) }
	p, err := b.started(ctx, 0)
	if err != nil {
		return err
	}
	ready()
	select {
	case <-stop:
	case <-ctx.Done():
	}
	p.Close()
	return nil
}
