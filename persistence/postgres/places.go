package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// counterKey names the counters of a tenant in a queue.
type counterKey struct {
	queue int16
	group int32
}

// counts are how many places of each lane are given out at once.
type counts [2]int64

// allot gives every task that became ready its place in its queue, in order,
// unless it has one.
func (p *decisionTx) allot(ctx context.Context) error {
	if len(p.enqueued) == 0 {
		return nil
	}
	asked := map[counterKey]counts{}
	for _, e := range p.enqueued {
		if e.place != 0 {
			continue
		}
		k := counterKey{e.queue, e.run.group}
		c := asked[k]
		c[e.lane]++
		asked[k] = c
	}
	last, err := p.s.allotBlocks(ctx, p.tx, asked)
	if err != nil {
		return err
	}
	given := map[counterKey]counts{}
	ready := map[int16]int{}
	for i := range p.enqueued {
		e := &p.enqueued[i]
		ready[e.queue]++
		if e.place != 0 {
			continue
		}
		k := counterKey{e.queue, e.run.group}
		g := given[k]
		g[e.lane]++
		given[k] = g
		block := last[k][e.lane] - asked[k][e.lane] + g[e.lane]
		e.place = lifecycle.FairID(e.run.group, e.lane, block)
	}
	p.wake.Ready, err = p.s.ready(ctx, p.tx, ready)
	return err
}

// allotBlocks moves counters on and returns where they stand afterwards. A queue
// that has lost its frontier is given another.
func (s *Store) allotBlocks(ctx context.Context, tx pgx.Tx, asked map[counterKey]counts) (map[counterKey]counts, error) {
	last := make(map[counterKey]counts, len(asked))
	if err := s.moveCounters(ctx, tx, asked, last); err != nil || len(last) == len(asked) {
		return last, err
	}
	rest := maps.Clone(asked)
	maps.DeleteFunc(rest, func(k counterKey, _ counts) bool { _, moved := last[k]; return moved })
	queues := make([]int16, 0, len(rest))
	for k := range rest {
		queues = append(queues, k.queue)
	}
	if err := s.Exec(ctx, tx, "insert_frontiers", pgsql.Named{"queues": queues}); err != nil {
		return nil, err
	}
	if err := s.moveCounters(ctx, tx, rest, last); err != nil {
		return nil, err
	}
	if len(last) != len(asked) {
		return nil, pgerr.ErrRowsLost
	}
	return last, nil
}

// moveCounters moves those counters on whose queues have a frontier, and adds
// where they stand afterwards to last.
func (s *Store) moveCounters(ctx context.Context, tx pgx.Tx, asked, last map[counterKey]counts) error {
	if len(asked) == 0 {
		return nil
	}
	var (
		queues, lanes []int16
		groups        []int32
		places        []int64
	)
	for k, c := range asked {
		for lane, n := range c {
			if n > 0 {
				queues, groups = append(queues, k.queue), append(groups, k.group)
				lanes, places = append(lanes, int16(lane)), append(places, n)
			}
		}
	}
	text, args := s.Bind("allot_blocks", pgsql.Named{"queues": queues, "groups": groups, "lanes": lanes, "places": places})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var k counterKey
	var lane int16
	var block int64
	_, err = pgx.ForEachRow(rows, []any{&k.queue, &k.group, &lane, &block}, func() error {
		c := last[k]
		c[lane] = block
		last[k] = c
		return nil
	})
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
