package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// A step that has used up its attempts gets others, by flags of the command.
func TestARequeueByTheCommandHasAttemptsOfItsOwn(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	var calls atomic.Int32
	handle, err := troupe.Register(engine, troupe.Define("stubborn", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "try", func(ctx context.Context, in int) (int, error) {
			if calls.Add(1) < 4 {
				return 0, errors.New("not yet")
			}
			return troupe.Task(ctx).MaxAttempts, nil
		})
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	run, err := handle.RunNoWait(t.Context(), 1)
	require.NoError(t, err)
	_, err = run.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	code, out, problem := call([]string{"TROUPE_DATABASE_URL=" + address}, "dead-letters", "requeue", run.ID().String()+"/0",
		"--attempts", "3", "--retry-first", "1ms", "--retry-cap", "1s", "--attempt-timeout", "1m", "--json")
	require.Zero(t, code, problem)
	var done struct{ Runs []troupe.RunID }
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	value, err := handle.Get("", done.Runs[0]).Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, value)
	require.EqualValues(t, 4, calls.Load())
}
