package bench

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe"
)

//go:embed sql/lateness.sql
var latenessSQL string

const (
	napTime   = 500 * time.Millisecond
	napsEvery = 20 * time.Millisecond
	napsBatch = 5
)

func howTimers(o Options) string {
	return fmt.Sprintf("%d sleeps of %v, %d more every %v, by the database's clock", o.Samples, napTime, napsBatch, napsEvery)
}

// measureTimers starts sleeps at a steady pace, so that some end at any time.
func measureTimers(ctx context.Context, l *lab) (sample, error) {
	sleeper := troupe.Define("sleeper", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		nap := troupe.Sleep(b, "nap", napTime)
		return troupe.Step0(b, "awake", func(_ context.Context, n int) (int, error) { return n, nil }, troupe.After(nap))
	})
	err := onPod(ctx, l, l.options.Config, sleeper, func(handle *troupe.Handle[int, int]) error {
		for begun := 0; begun < l.options.Samples; begun += napsBatch {
			if _, err := handle.RunMany(ctx, make([]int, napsBatch)); err != nil {
				return err
			}
			if err := pause(ctx, napsEvery); err != nil {
				return err
			}
		}
		return l.awaitEnd(ctx)
	})
	if err != nil {
		return nil, err
	}
	rows, err := l.Pool.Query(ctx, latenessSQL)
	if err != nil {
		return nil, err
	}
	late, err := pgx.CollectRows(rows, pgx.RowTo[float64])
	taken := make(times, len(late))
	for i, seconds := range late {
		taken[i] = time.Duration(seconds * float64(time.Second))
	}
	return taken.sample(), err
}
