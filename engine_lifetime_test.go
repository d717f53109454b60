package troupe

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowly returns an engine whose database answers after a while.
func slowly(t *testing.T, after time.Duration) (*Engine, *Handle[string, string]) {
	t.Helper()
	engine, err := newEngine(Config{}.alone(), func(ctx context.Context, config Config) (*backend, error) {
		select {
		case <-time.After(after):
			return openMemory(ctx, config)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	require.NoError(t, err)
	handle, err := Register(engine, Define("w", func(b *Builder[string]) StepRef[string] {
		return Step0(b, "step", func(ctx context.Context, in string) (string, error) {
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(time.Hour):
				return in, nil
			}
		})
	}))
	require.NoError(t, err)
	return engine, handle
}

// A Start that hangs blocks no other call: they fail because the engine is not
// running, and Stop ends the Start.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, handle := slowly(t, time.Hour)
		begun, failed := time.Now(), make(chan error, 1)
		go func() { failed <- engine.Start(context.Background()) }()
		synctest.Wait()
		require.ErrorIs(t, engine.Start(t.Context()), ErrStarted)
		require.Nil(t, engine.Done())
		require.NoError(t, engine.Err())
		require.False(t, engine.Health(t.Context()).Ready)
		_, err := handle.RunNoWait(t.Context(), "")
		require.ErrorIs(t, err, ErrNotStarted)
		require.NoError(t, engine.Stop(t.Context()))
		require.ErrorIs(t, <-failed, ErrNotStarted)
		require.Zero(t, time.Since(begun))
		require.ErrorIs(t, engine.Start(t.Context()), ErrStarted)
	})
}

// A start that failed may be tried again; what it left behind is closed.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, handle := slowly(t, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, engine.Start(ctx), context.DeadlineExceeded)
		require.NoError(t, engine.Start(t.Context()))
		got, err := handle.Run(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "x", got)
		require.NoError(t, engine.Stop(t.Context()))
	})
}

// The second of two signals stops at once, while the first still waits for
// tasks. Later calls of Stop return the same.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, handle := slowly(t, 0)
		require.NoError(t, engine.Start(t.Context()))
		run, err := handle.RunNoWait(t.Context(), "")
		require.NoError(t, err)
		awaited := make(chan error, 1)
		go func() { _, err := run.Await(context.Background()); awaited <- err }()
		synctest.Wait()

		begun, first := time.Now(), make(chan error, 1)
		go func() { first <- engine.Stop(context.Background()) }()
		synctest.Wait()
		second, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, engine.Stop(second), context.Canceled)
		require.NoError(t, <-first)
		require.Less(t, time.Since(begun), time.Second)
		require.ErrorIs(t, <-awaited, errEnded)
		require.ErrorIs(t, engine.whileRunning(fmt.Errorf("%w: closed pool", ErrUnavailable)), errEnded)
		require.ErrorIs(t, engine.whileRunning(ErrRunNotFound), ErrRunNotFound)
		require.NoError(t, engine.Stop(t.Context()), "it has stopped")
	})
}
