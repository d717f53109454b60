package cases

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// What only this engine is asked, because its peers have no such thing or hide
// the instants.

//go:embed sql/lateness.sql
var latenessSQL string

// timers starts sleeps at a steady pace beside diamonds, so that some end at any
// time.
func timers(ctx context.Context, b *Bench) ([]Figure, error) {
	p, err := b.started(ctx, b.size.warm)
	if err != nil {
		return nil, err
	}
	l := newLoad(b, peer.Diamond, 16, openFor(b.setting, peer.Diamond, b.size.flow))
	failed := make(chan error, 1)
	lasts := time.Duration(b.size.samples) * every
	go func() { failed <- l.trigger(ctx, p, lasts+time.Second) }()
	const perTick = 5
	n := int64(0)
	for ; n < int64(perTick*b.size.samples); n += perTick {
		for i := range int64(perTick) {
			if err := p.Enqueue(ctx, peer.Job{ID: -1 - n - i, Shape: peer.Nap}); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, every); err != nil {
			return nil, err
		}
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	if err := b.finished(ctx, p, n+l.next.Load()); err != nil {
		return nil, err
	}
	rows, err := b.watch.Query(ctx, latenessSQL)
	if err != nil {
		return nil, err
	}
	late, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	if int64(len(late)) != n {
		return nil, fmt.Errorf("%d of %d sleeps have ended", len(late), n)
	}
	return latencies(len(late), func(i int64) int64 { return late[i] * int64(time.Microsecond) }), nil
}

const executedSQL = `select count(*) from troupe.every_task where state = 10`

// orders measures the slow path: runs with branches, half of whose steps are
// skipped. The same process measures diamonds before it, for the ratio.
func orders(ctx context.Context, b *Bench) ([]Figure, error) {
	p, err := b.started(ctx, b.size.warm)
	if err != nil {
		return nil, err
	}
	const clients = 1000
	diamonds := newLoad(b, peer.Diamond, clients, openFor(b.setting, peer.Diamond, b.size.flow))
	if _, err := b.run(ctx, p, diamonds, warmUp); err != nil {
		return nil, err
	}
	runs, err := b.run(ctx, p, diamonds, b.size.flow)
	if err != nil {
		return nil, err
	}
	diamond := 4 * runs
	var earlier, later int64
	if err := b.watch.QueryRow(ctx, executedSQL).Scan(&earlier); err != nil {
		return nil, err
	}
	l := newLoad(b, peer.Orders, clients, openFor(b.setting, peer.Orders, b.size.flow))
	if _, err := b.run(ctx, p, l, warmUp); err != nil {
		return nil, err
	}
	if runs, err = b.run(ctx, p, l, b.size.flow); err != nil {
		return nil, err
	}
	if err := b.watch.QueryRow(ctx, executedSQL).Scan(&later); err != nil {
		return nil, err
	}
	executed := runs * float64(later-earlier) / float64(l.next.Load())
	return []Figure{
		{Value: executed, Unit: "tasks" + perSecond, Higher: true},
		{Name: "runs", Value: runs, Unit: "runs" + perSecond, Higher: true},
		{Name: "of-diamond", Value: 100 * executed / diamond, Unit: "% of diamond's tasks/s", Higher: true},
	}, nil
}
