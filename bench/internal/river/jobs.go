package river

import (
	"context"

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

// nodeArgs is one node of a diamond.
type nodeArgs struct {
	Run  int64  `json:"run"`
	Node string `json:"node"`
}

// Kind implements river.JobArgs.
func (nodeArgs) Kind() string { return "node" }

type nodeWorker struct {
	river.WorkerDefaults[nodeArgs]
	*contestant
}

// Work implements river.Worker.
func (w *nodeWorker) Work(ctx context.Context, job *river.Job[nodeArgs]) error {
	switch job.Args.Node {
	case "a":
		w.options.Probe.Begin(peer.Job{ID: job.Args.Run, Shape: peer.Diamond})
	case "d":
		w.options.Probe.End(job.Args.Run)
		return nil
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		next, err := successors(ctx, tx, job.Args)
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
	if done.Node == "a" {
		return []river.InsertManyParams{
			{Args: nodeArgs{Run: done.Run, Node: "b"}}, {Args: nodeArgs{Run: done.Run, Node: "c"}},
		}, nil
	}
	const join = `update diamond set pending = pending - 1 where run = $1 returning pending`
	var pending int
	if err := tx.QueryRow(ctx, join, done.Run).Scan(&pending); err != nil || pending > 0 {
		return nil, err
	}
	return []river.InsertManyParams{{Args: nodeArgs{Run: done.Run, Node: "d"}}}, nil
}
