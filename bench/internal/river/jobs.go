package river

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

type singleArgs struct{ peer.Job }

// Kind implements river.JobArgs.
func (singleArgs) Kind() string { return "single" }

type singleWorker struct {
	river.WorkerDefaults[singleArgs]
	probe *peer.Probe
}

// Work implements river.Worker. A job with a payload records it as its output.
func (w *singleWorker) Work(ctx context.Context, job *river.Job[singleArgs]) error {
	w.probe.Begin(job.Args.Job)
	w.probe.End(job.Args.ID)
	if job.Args.Payload == "" {
		return nil
	}
	return river.RecordOutput(ctx, job.Args.Payload)
}

// nodeArgs is one node of a graph.
type nodeArgs struct {
	Run   int64      `json:"run"`
	Shape peer.Shape `json:"shape"`
	Layer int        `json:"layer"`
}

// Kind implements river.JobArgs.
func (nodeArgs) Kind() string { return "node" }

type nodeWorker struct {
	river.WorkerDefaults[nodeArgs]
	*contestant
}

// Work implements river.Worker.
func (w *nodeWorker) Work(ctx context.Context, job *river.Job[nodeArgs]) error {
	done := job.Args
	if done.Layer == 0 {
		w.options.Probe.Begin(peer.Job{ID: done.Run, Shape: done.Shape})
	}
	if done.Layer == len(done.Shape.Layers())-1 {
		w.options.Probe.End(done.Run)
		return nil
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		next, err := successors(ctx, tx, done)
		if err != nil {
			return err
		}
		if len(next) > 0 {
			if _, err := w.client.InsertManyFastTx(ctx, tx, next); err != nil {
				return err
			}
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// successors returns the nodes that are ready now that this one is done.
func successors(ctx context.Context, tx pgx.Tx, done nodeArgs) ([]river.InsertManyParams, error) {
	layers := done.Shape.Layers()
	if layers[done.Layer] > 1 {
		const join = `update joins set pending = pending - 1 where run = $1 returning pending`
		var pending int
		if err := tx.QueryRow(ctx, join, done.Run).Scan(&pending); err != nil || pending > 0 {
			return nil, err
		}
	}
	next := done
	next.Layer++
	return slices.Repeat([]river.InsertManyParams{{Args: next}}, layers[next.Layer]), nil
}

// twinArgs is the kind of a job that is registered and never enqueued.
type twinArgs int

// Kind implements river.JobArgs.
func (t twinArgs) Kind() string { return fmt.Sprintf("twin-%d", t) }

type twinWorker struct{ river.WorkerDefaults[twinArgs] }

// Work implements river.Worker.
func (*twinWorker) Work(context.Context, *river.Job[twinArgs]) error { return nil }
