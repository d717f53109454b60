package load

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// census is how many runs the database has, by how they ended.
type census struct {
	Open      int64
	Completed int64
	Failed    int64
	Canceled  int64
	Unasked   int64 // of the failed: those that were not asked to fail
}

const censusSQL = `select count(*) filter (where state < 10), count(*) filter (where state = 10),
		count(*) filter (where state = 11), count(*) filter (where state = 13),
		count(*) filter (where state = 11 and not exists (
			select from troupe.every_task t where t.run_id = r.id and t.step = r.failed_step and t.class = $1))
	from troupe.every_run r`

// takeCensus reads all runs: it is for when nothing else happens.
func takeCensus(ctx context.Context, pool *pgxpool.Pool) (census, error) {
	var c census
	err := pool.QueryRow(ctx, censusSQL, askedClass).Scan(&c.Open, &c.Completed, &c.Failed, &c.Canceled, &c.Unasked)
	return c, err
}

func (c census) ended() int64 { return c.Completed + c.Failed + c.Canceled }

// since leaves out what an earlier census has counted.
func (c census) since(before census) census {
	return census{
		c.Open - before.Open, c.Completed - before.Completed, c.Failed - before.Failed, c.Canceled - before.Canceled, c.Unasked - before.Unasked,
	}
}
