package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A requeue continues with the definition of the ended run. The command warns if no living
// pod has that definition.
func TestARequeueThatNoPodCanServeIsSaid(t *testing.T) {
	t.Parallel()
	address := fallen(t, 3)
	environ := []string{"TROUPE_DATABASE_URL=" + address}
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	requeue := func(args ...string) (done requeuedJSON, problem string) {
		t.Helper()
		code, out, problem := call(environ, append([]string{"dlq", "requeue", "--json"}, args...)...)
		require.Zero(t, code, problem)
		require.NoError(t, json.Unmarshal([]byte(out), &done), out)
		require.Len(t, done.Runs, 1)
		require.NotNil(t, done.Unserved)
		return done, problem
	}
	living := func(second string) (stop func()) {
		t.Helper()
		engine, err := troupe.New(pool, troupe.Config{})
		require.NoError(t, err)
		_, err = troupe.Register(engine, troupe.Define("fall", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			first := troupe.Step0(b, "first", func(_ context.Context, in int) (int, error) { return in, nil })
			return troupe.Step1(b, second, func(context.Context, int, int) (int, error) {
				return 0, troupe.Terminal(errors.New("again"))
			}, first)
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		return func() { require.NoError(t, engine.Stop(context.Background())) }
	}
	const unserved = `^troupe: no living pod registers all steps of 1 new run of fall \(definition [0-9a-f]{8}…\): start .*\n$`

	done, problem := requeue("--first", "1")
	require.Equal(t, 1, *done.Unserved, "no pod lives")
	require.Regexp(t, unserved, problem)

	stop := living("renamed")
	done, problem = requeue("--first", "1", "--from-start")
	require.Equal(t, 1, *done.Unserved, "another version lives")
	require.Regexp(t, unserved, problem)
	stop()

	stop = living("second")
	done, problem = requeue("--first", "1", "--workflow", "fall")
	require.Zero(t, *done.Unserved)
	require.Empty(t, problem)
	stop()
}
