package demo

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/progress.sql
var progressSQL string

//go:embed sql/tasks.sql
var tasksSQL string

//go:embed sql/leader.sql
var leaderSQL string

//go:embed sql/pods.sql
var podsSQL string

// watcher reads how far the runs are.
type watcher struct {
	pool  *pgxpool.Pool
	names map[int64]string // of pods, by number; kept when a pod's row is gone
}

// look is what the tables say at one instant.
type look struct {
	tenants  map[string]tenantCount
	running  map[string]int // tasks by pod
	sleeping int
	lost     int
	regained int
}

// tenantCount counts a tenant's runs, and the tasks of those.
type tenantCount struct{ total, completed, failed, tasks, ended int }

// runsEnded counts the runs that have ended, however.
func (l look) runsEnded() int {
	ended := 0
	for _, t := range l.tenants {
		ended += t.completed + t.failed
	}
	return ended
}

// tasks counts all tasks, and those that have ended.
func (l look) tasks() (all, ended int) {
	for _, t := range l.tenants {
		all += t.tasks
		ended += t.ended
	}
	return all, ended
}

// busiest names the pod that executes most tasks; "" if none executes any.
func (l look) busiest() string {
	best := ""
	for name, running := range l.running {
		if running > l.running[best] || running == l.running[best] && name < best {
			best = name
		}
	}
	return best
}

func (w *watcher) look(ctx context.Context) (look, error) {
	seen := look{tenants: map[string]tenantCount{}, running: map[string]int{}}
	var id int64
	var name string
	err := w.each(ctx, podsSQL, nil, []any{&id, &name}, func() { w.names[id] = name })
	if err != nil {
		return seen, err
	}
	var count tenantCount
	err = w.each(ctx, progressSQL, nil, []any{
		&name, &count.total, &count.completed, &count.failed, &count.tasks, &count.ended,
	}, func() { seen.tenants[name] = count })
	if err != nil {
		return seen, err
	}
	var running, sleeping, lost, regained int
	err = w.each(ctx, tasksSQL, nil, []any{&id, &running, &sleeping, &lost, &regained}, func() {
		if running > 0 {
			seen.running[w.names[id]] += running
		}
		seen.sleeping += sleeping
		seen.lost += lost
		seen.regained += regained
	})
	return seen, err
}

// reign says which pod leads, and since when.
type reign struct {
	epoch int64
	pod   string // "": none
	since time.Time
}

func (w *watcher) reign(ctx context.Context) (reign, error) {
	var r reign
	var holder int64
	err := w.each(ctx, leaderSQL, nil, []any{&r.epoch, &holder, &r.since}, func() { r.pod = w.names[holder] })
	return r, err
}

// now is the database's time.
func (w *watcher) now(ctx context.Context) (time.Time, error) {
	var at time.Time
	err := w.each(ctx, "select clock_timestamp()", nil, []any{&at}, func() {})
	return at, err
}

// each runs a query and calls use with each row scanned into the targets.
func (w *watcher) each(ctx context.Context, query string, args, into []any, use func()) error {
	rows, err := w.pool.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	if _, err := pgx.ForEachRow(rows, into, func() error { use(); return nil }); err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	return nil
}
