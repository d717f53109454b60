package bench

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
	"github.com/troupe-dev/troupe/migrations"
)

// lab is where measurements are made: a test bed whose database is made anew
// for each repetition.
type lab struct {
	*testbed.Bed
	options Options
}

func openLab(ctx context.Context, o Options) (*lab, error) {
	bed, err := testbed.Open(ctx, o.DatabaseURL)
	if err != nil {
		return nil, err
	}
	return &lab{bed, o}, nil
}

// stopGrace bounds the stop of a pod, which has nothing left to do then.
const stopGrace = 10 * time.Second

// onPod runs a workflow on a pod of its own while use lasts.
func onPod[I, O any](
	ctx context.Context, l *lab, config troupe.Config, w *troupe.Workflow[I, O], use func(*troupe.Handle[I, O]) error,
) (err error) {
	config.Schema = migrations.DefaultSchema
	engine, err := troupe.New(l.Pool, config)
	if err != nil {
		return err
	}
	handle, err := troupe.Register(engine, w)
	if err != nil {
		return err
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		err = errors.Join(err, engine.Stop(stop))
	}()
	return use(handle)
}

// costs are the figures of what a number of tasks has used up.
func costs(used testbed.Usage, tasks float64) sample {
	result := sample{
		walPerTask: float64(used.WAL) / tasks,
		txPerTask:  float64(used.Transactions) / tasks,
		cpuPerTask: float64(used.Own.Microseconds()) / tasks,
	}
	if used.Server > 0 {
		result[serverPerTask] = float64(used.Server.Microseconds()) / tasks
	}
	return result
}
