package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/places"
)

// allot gives every task that became ready its place in its queue, in order,
// unless it has one.
func (p *decisionTx) allot(ctx context.Context) error {
	if len(p.enqueued) == 0 {
		return nil
	}
	asked := map[places.Counter]places.Counts{}
	for _, e := range p.enqueued {
		if e.place != 0 {
			continue
		}
		k := places.Counter{Queue: e.queue, Group: e.run.group}
		c := asked[k]
		c[e.lane]++
		asked[k] = c
	}
	last, err := places.Allot(ctx, p.s.DB, p.tx, asked)
	if err != nil {
		return err
	}
	given := map[places.Counter]places.Counts{}
	ready := map[int16]int{}
	for i := range p.enqueued {
		e := &p.enqueued[i]
		ready[e.queue]++
		if e.place != 0 {
			continue
		}
		k := places.Counter{Queue: e.queue, Group: e.run.group}
		g := given[k]
		g[e.lane]++
		given[k] = g
		block := last[k][e.lane] - asked[k][e.lane] + g[e.lane]
		e.place = lifecycle.FairID(e.run.group, e.lane, block)
	}
	p.wake.Ready, err = p.s.ready(ctx, p.tx, ready)
	return err
}

// ready names the queues in which tasks became claimable.
func (s *Store) ready(ctx context.Context, on pgsql.Querier, counts map[int16]int) ([]persistence.Ready, error) {
	var list []persistence.Ready
	for number, count := range counts {
		name, err := s.NameQueue(ctx, on, number)
		if err != nil {
			return nil, err
		}
		list = append(list, persistence.Ready{Queue: name, Count: count})
	}
	return sortReady(list), nil
}

func sortReady(list []persistence.Ready) []persistence.Ready {
	slices.SortFunc(list, func(a, b persistence.Ready) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}
