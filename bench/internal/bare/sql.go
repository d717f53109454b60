package bare

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/workflow"
)

//go:embed sql/trigger.sql
var triggerSQL string

//go:embed sql/claim.sql
var claimSQL string

//go:embed sql/lock.sql
var lockSQL string

//go:embed sql/record.sql
var recordSQL string

// lean is tables with statements of our own.
type lean struct {
	pool        *pgxpool.Pool
	definitions map[peer.Shape]int32
	pod         int64
	tell        bool // other processes that there is work
}

// leanSettings are those that the statements are fastest with: plans that do
// not depend on statistics, and nothing compiled.
func leanSettings() map[string]string {
	return map[string]string{
		"jit": "off", "plan_cache_mode": "force_generic_plan",
		"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off",
	}
}

func openLean(ctx context.Context, url string, pod int64) (*lean, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = writers + 2 // the claimer's and the intake's
	for name, value := range leanSettings() {
		config.ConnConfig.RuntimeParams[name] = value
	}
	l := &lean{pod: pod, definitions: map[peer.Shape]int32{}}
	if l.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, `select name, definition from troupe.workflow_definitions`)
	if err != nil {
		return nil, err
	}
	var name string
	var number int32
	if _, err := pgx.ForEachRow(rows, []any{&name, &number}, func() error {
		l.definitions[peer.Shape(name)] = number
		return nil
	}); err != nil {
		return nil, err
	}
	_, err = l.pool.Exec(ctx, `insert into troupe.tenants (tenant, group_id) values ('default', 1) on conflict do nothing`)
	if err == nil {
		_, err = l.pool.Exec(ctx, `insert into troupe.tenant_groups (queue, group_id, lane, block) values (1, 1, 1, 0) on conflict do nothing`)
	}
	return l, err
}

func (l *lean) close() { l.pool.Close() }

func (l *lean) trigger(ctx context.Context, shape peer.Shape, runs []workflow.RunID, inputs [][]byte) error {
	batch := &pgx.Batch{}
	batch.Queue(triggerSQL, plain(runs), inputs, l.definitions[shape])
	if l.tell {
		batch.Queue(notifySQL)
	}
	return l.pool.SendBatch(ctx, batch).Close()
}

func (l *lean) claim(ctx context.Context, limit int) ([]task, error) {
	rows, err := l.pool.Query(ctx, claimSQL, limit, l.pod, newClaim())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t task, err error) {
		err = row.Scan((*[16]byte)(&t.run), &t.step, &t.epoch)
		return t, err
	})
}

func (l *lean) record(ctx context.Context, tasks []task, outputs [][]byte) ([]task, error) {
	runs, steps, epochs := make([][16]byte, len(tasks)), make([]int32, len(tasks)), make([]int64, len(tasks))
	for i, t := range tasks {
		runs[i], steps[i], epochs[i] = t.run, t.step, t.epoch
	}
	var done int
	var childRuns [][16]byte
	var childSteps []int32
	var childEpochs []int64
	batch := &pgx.Batch{}
	batch.Queue(lockSQL, runs)
	batch.Queue(recordSQL, runs, steps, epochs, outputs, l.pod, newClaim()).QueryRow(func(row pgx.Row) error {
		return row.Scan(&done, &childRuns, &childSteps, &childEpochs)
	})
	if err := l.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	if done != len(tasks) {
		return nil, fmt.Errorf("%d of %d tasks were recorded", done, len(tasks))
	}
	children := make([]task, len(childRuns))
	for i := range children {
		children[i] = task{childRuns[i], childSteps[i], childEpochs[i]}
	}
	return children, nil
}

func plain(runs []workflow.RunID) [][16]byte {
	list := make([][16]byte, len(runs))
	for i, run := range runs {
		list[i] = run
	}
	return list
}

func newClaim() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
