// Package places gives out places in queues: each tenant has a counter for each lane of a queue.
package places

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Counter names the counters of a tenant in a queue.
type Counter struct {
	Queue int16
	Group int32
}

// Counts are how many places of each lane are given out at once.
type Counts [2]int64

// Allot moves counters on and returns where they stand afterwards. A queue
// that has lost its frontier is given another.
func Allot(ctx context.Context, db *pgsql.DB, tx pgx.Tx, asked map[Counter]Counts) (map[Counter]Counts, error) {
	last := make(map[Counter]Counts, len(asked))
	if err := moveCounters(ctx, db, tx, asked, last); err != nil || len(last) == len(asked) {
		return last, err
	}
	rest := maps.Clone(asked)
	maps.DeleteFunc(rest, func(k Counter, _ Counts) bool { _, moved := last[k]; return moved })
	queues := make([]int16, 0, len(rest))
	for k := range rest {
		queues = append(queues, k.Queue)
	}
	if err := db.Exec(ctx, tx, "insert_frontiers", pgsql.Named{"queues": queues}); err != nil {
		return nil, err
	}
	if err := moveCounters(ctx, db, tx, rest, last); err != nil {
		return nil, err
	}
	if len(last) != len(asked) {
		return nil, pgerr.ErrRowsLost
	}
	return last, nil
}

// moveCounters moves those counters on whose queues have a frontier, and adds
// where they stand afterwards to last.
func moveCounters(ctx context.Context, db *pgsql.DB, tx pgx.Tx, asked, last map[Counter]Counts) error {
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
				queues, groups = append(queues, k.Queue), append(groups, k.Group)
				lanes, places = append(lanes, int16(lane)), append(places, n)
			}
		}
	}
	text, args := db.Bind("allot_blocks", pgsql.Named{"queues": queues, "groups": groups, "lanes": lanes, "places": places})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var k Counter
	var lane int16
	var block int64
	_, err = pgx.ForEachRow(rows, []any{&k.Queue, &k.Group, &lane, &block}, func() error {
		c := last[k]
		c[lane] = block
		last[k] = c
		return nil
	})
	return err
}
