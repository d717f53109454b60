package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/naive_tables.sql
var naiveTablesSQL string

const (
	naiveWorkers  = 8               // more are not faster: they wait for each other's locks
	naiveTriggers = 2               // of them trigger, as long as there is less than naiveBacklog to do
	naiveBacklog  = 200             // runs
	naiveFor      = 4 * time.Second // a run of the engine takes about as long
)

func howNaive(Options) string {
	return fmt.Sprintf("%d connections that claim and complete, %d that trigger, for %v; no fairness, retries, leases or fencing",
		naiveWorkers, naiveTriggers, naiveFor)
}

// naive is what one writes first: every trigger, claim and completion is a
// transaction of plain statements.
type naive struct {
	pool      *pgxpool.Pool
	completed atomic.Int64 // tasks
	open      atomic.Int64 // runs
}

func measureNaive(ctx context.Context, l *lab) (sample, error) {
	config, err := pgxpool.ParseConfig(l.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = naiveWorkers + naiveTriggers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, naiveTablesSQL); err != nil {
		return nil, err
	}
	before, err := l.Usage(ctx)
	if err != nil {
		return nil, err
	}
	n := &naive{pool: pool}
	began := time.Now()
	if err := n.run(ctx); err != nil {
		return nil, err
	}
	took := time.Since(began)
	pool.Close() // so that its sessions report
	after, err := l.Usage(ctx)
	if err != nil {
		return nil, err
	}
	tasks := float64(n.completed.Load())
	result := costs(after.Since(before), tasks)
	result[perSecond], result[runsPerS] = tasks/took.Seconds(), tasks/4/took.Seconds()
	return result, nil
}

func (n *naive) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, naiveFor)
	defer cancel()
	var loops sync.WaitGroup
	var failed failure
	loop := func(id int, step func(context.Context, int) (bool, error)) {
		for ctx.Err() == nil {
			busy, err := step(ctx, id)
			if err != nil && ctx.Err() == nil {
				failed.note(err)
				cancel()
			}
			if !busy {
				_ = pause(ctx, time.Millisecond) // the loop looks at ctx itself
			}
		}
	}
	for id := range naiveTriggers {
		loops.Go(func() { loop(id, n.trigger) })
	}
	for id := range naiveWorkers {
		loops.Go(func() { loop(id, n.work) })
	}
	loops.Wait()
	return failed.first()
}

// trigger stores a run, its four tasks and the place of the first in the queue.
func (n *naive) trigger(ctx context.Context, _ int) (bool, error) {
	if n.open.Load() >= naiveBacklog {
		return false, nil
	}
	n.open.Add(1)
	return true, pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		var run int64
		err := tx.QueryRow(ctx, `insert into naive.runs (state, remaining, input) values ('running', 4, '1') returning id`).Scan(&run)
		if err != nil {
			return err
		}
		return perform(ctx, tx, run,
			`insert into naive.tasks (run_id, step, state, pending, children) values
				($1, 0, 'queued', 0, '{1,2}'), ($1, 1, 'pending', 1, '{3}'), ($1, 2, 'pending', 1, '{3}'), ($1, 3, 'pending', 2, '{}')`,
			`insert into naive.events (run_id, step, kind, at) values ($1, 0, 'queued', clock_timestamp())`,
			`insert into naive.queue (run_id, step) values ($1, 0)`)
	})
}

// work claims the oldest task and completes it.
func (n *naive) work(ctx context.Context, worker int) (bool, error) {
	var run int64
	var step int
	err := pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error { return claim(ctx, tx, worker, &run, &step) })
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	ended := false
	err = pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		var err error
		ended, err = complete(ctx, tx, run, step)
		return err
	})
	if err != nil {
		return true, err
	}
	n.completed.Add(1)
	if ended {
		n.open.Add(-1)
	}
	return true, nil
}

func claim(ctx context.Context, tx pgx.Tx, worker int, run *int64, step *int) error {
	const next = `delete from naive.queue where id = (select id from naive.queue order by id for update skip locked limit 1) returning run_id, step`
	if err := tx.QueryRow(ctx, next).Scan(run, step); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `update naive.tasks set state = 'running', worker = $3 where run_id = $1 and step = $2`, *run, *step, worker); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `insert into naive.events (run_id, step, kind, at) values ($1, $2, 'started', clock_timestamp())`, *run, *step)
	return err
}

func complete(ctx context.Context, tx pgx.Tx, run int64, step int) (ended bool, err error) {
	var children []int32
	err = tx.QueryRow(ctx, `update naive.tasks set state = 'completed', output = '1' where run_id = $1 and step = $2 and state = 'running'
		returning children`, run, step).Scan(&children)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, `insert into naive.events (run_id, step, kind, at) values ($1, $2, 'completed', clock_timestamp())`, run, step); err != nil {
		return false, err
	}
	for _, child := range children {
		var pending int
		err := tx.QueryRow(ctx, `update naive.tasks set pending = pending - 1 where run_id = $1 and step = $2 returning pending`, run, child).Scan(&pending)
		if err != nil {
			return false, err
		}
		if pending > 0 {
			continue
		}
		if err := enqueue(ctx, tx, run, child); err != nil {
			return false, err
		}
	}
	var remaining int
	err = tx.QueryRow(ctx, `update naive.runs set remaining = remaining - 1,
		state = case when remaining = 1 then 'completed' else state end where id = $1 returning remaining`, run).Scan(&remaining)
	return remaining == 0, err
}

func enqueue(ctx context.Context, tx pgx.Tx, run int64, step int32) error {
	for _, statement := range []string{
		`update naive.tasks set state = 'queued' where run_id = $1 and step = $2`,
		`insert into naive.events (run_id, step, kind, at) values ($1, $2, 'queued', clock_timestamp())`,
		`insert into naive.queue (run_id, step) values ($1, $2)`,
	} {
		if _, err := tx.Exec(ctx, statement, run, step); err != nil {
			return err
		}
	}
	return nil
}

// perform runs statements whose only argument is the run.
func perform(ctx context.Context, tx pgx.Tx, run int64, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement, run); err != nil {
			return err
		}
	}
	return nil
}
