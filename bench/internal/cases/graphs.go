package cases

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/report"
	"github.com/troupe-dev/troupe/bench/internal/server"
)

const stepsPerSecond = "steps" + perSecond

// chains measures so many runs of a shape at once, each of which has one step at a time. One
// alone goes before them.
func chains(shape peer.Shape, runs int) func(context.Context, *Bench) ([]Figure, error) {
	return func(ctx context.Context, b *Bench) ([]Figure, error) {
		p, err := b.started(ctx, b.size.warm)
		if err != nil {
			return nil, err
		}
		server.ResetPeak()
		before, err := b.usage(ctx)
		if err != nil {
			return nil, err
		}
		alone := newLoad(b, shape, 1, 1)
		if _, err := b.run(ctx, p, alone, warmUp); err != nil {
			return nil, err
		}
		l := newLoad(b, shape, runs, runs)
		l.next.Store(alone.next.Load())
		rate, err := b.run(ctx, p, l, b.size.flow)
		if err != nil {
			return nil, err
		}
		steps := float64(shape.Steps())
		costs, err := b.costs(ctx, p, before, steps*float64(l.next.Load()))
		return append([]Figure{{Value: steps * rate, Unit: stepsPerSecond, Higher: true}}, costs...), err
	}
}

// fanOutMax bounds the fan-outs of one measurement.
const fanOutMax = 1000

// fanOut measures one run at a time, after one that does not count in the rate.
func fanOut(ctx context.Context, b *Bench) ([]Figure, error) {
	b.probe.Mark(fanOutMax)
	p, err := b.started(ctx, b.size.warm)
	if err != nil {
		return nil, err
	}
	server.ResetPeak()
	before, err := b.usage(ctx)
	if err != nil {
		return nil, err
	}
	var joins []float64
	var began time.Time
	for id := int64(0); id < 2 || id < fanOutMax && time.Since(began) < b.size.flow; id++ {
		if id == 1 {
			joins, began = nil, time.Now()
		}
		asked := peer.Now()
		if err := p.Enqueue(ctx, peer.Job{ID: id, Shape: peer.FanOut}); err != nil {
			return nil, err
		}
		if err := b.finished(ctx, p, id+1); err != nil {
			return nil, err
		}
		joins = append(joins, inMS(time.Duration(b.probe.Last(id)-asked)))
	}
	rate := float64(len(joins)) / time.Since(began).Seconds()
	steps := float64(peer.FanOut.Steps())
	costs, err := b.costs(ctx, p, before, steps*float64(1+len(joins)))
	return append([]Figure{
		{Value: steps * rate, Unit: stepsPerSecond, Higher: true},
		{Name: "join", Value: report.Median(joins), Unit: milliseconds},
	}, costs...), err
}

// oneByOneMax bounds the runs of one measurement.
const oneByOneMax = 1000

// oneByOne measures runs of so many steps, one at a time, to their durable end, after some that do not
// count.
func oneByOne(shape peer.Shape, steps float64) func(context.Context, *Bench) ([]Figure, error) {
	return func(ctx context.Context, b *Bench) ([]Figure, error) {
		const throwAway = 3 // the first open connections and prepare statements
		p, err := b.started(ctx, b.size.warm)
		if err != nil {
			return nil, err
		}
		server.ResetPeak()
		before, err := b.usage(ctx)
		if err != nil {
			return nil, err
		}
		var took []int64
		var began time.Time
		for id := int64(0); id < throwAway+aloneMin || id < oneByOneMax && time.Since(began) < b.size.flow; id++ {
			if id == throwAway {
				took, began = nil, time.Now()
			}
			asked := peer.Now()
			if err := p.Enqueue(ctx, peer.Job{ID: id, Shape: shape}); err != nil {
				return nil, err
			}
			if err := b.finished(ctx, p, id+1); err != nil {
				return nil, err
			}
			took = append(took, peer.Now()-asked)
		}
		costs, err := b.costs(ctx, p, before, steps*float64(throwAway+len(took)))
		return append(latencies(len(took), func(i int64) int64 { return took[i] }), costs...), err
	}
}

// definitions are what the process of a start has.
const definitions = 1000

// start measures the start of an engine, up to the first durable end of a run:
// in a database that knows none of its definitions, and again.
func start(ctx context.Context, b *Bench) ([]Figure, error) {
	p, err := b.open(ctx) // which makes the tables
	if err != nil {
		return nil, err
	}
	p.Close()
	b.twins = definitions - 1
	var figures []Figure
	for i, name := range []string{"", "again"} {
		began := time.Now()
		p, err := b.started(ctx, 0)
		if err != nil {
			return nil, err
		}
		if err := p.Enqueue(ctx, peer.Job{ID: int64(i), Shape: peer.Diamond}); err != nil {
			return nil, err
		}
		if err := b.finished(ctx, p, int64(i)+1); err != nil {
			return nil, err
		}
		figures = append(figures, Figure{Name: name, Value: inMS(time.Since(began)), Unit: milliseconds})
		p.Close()
	}
	return figures, nil
}
