package acceptance

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// hanging is a log handler that never returns once it hangs, as one does that
// writes to a pipe that is not read.
type hanging struct {
	slog.Handler

	hangs   atomic.Bool
	reached chan struct{} // gets a token when it hangs
	end     chan struct{}
}

// Handle implements slog.Handler.
func (h *hanging) Handle(ctx context.Context, record slog.Record) error {
	if !h.hangs.Load() {
		return h.Handler.Handle(ctx, record)
	}
	select {
	case h.reached <- struct{}{}:
	default:
	}
	<-h.end
	return nil
}

// The log handler blocks for ever. Then the engine's sessions end, so that every actor
// logs. Runs complete, and Stop returns.
func TestALogThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	handler := &hanging{
		Handler: slog.NewTextHandler(&lockedText{}, nil), reached: make(chan struct{}, 1), end: make(chan struct{}),
	}
	defer close(handler.end)
	engine, err := troupe.New(pool, troupe.Config{Pulse: time.Second, Lease: 4 * time.Second, Logger: slog.New(handler)})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(number))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	_, err = handle.Run(t.Context(), "")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	handler.hangs.Store(true)
	var callers sync.WaitGroup
	var errs atomic.Value
	for range 8 {
		callers.Go(func() {
			for range 25 {
				if _, err := handle.Run(ctx, ""); err != nil {
					errs.Store(err)
					return
				}
			}
		})
	}
	reached := false
	for range 3 {
		_, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and application_name like 'troupe%'`)
		require.NoError(t, err)
		select {
		case <-handler.reached:
			reached = true
		case <-time.After(time.Second):
		}
	}
	require.True(t, reached, "nothing was logged")
	callers.Wait()
	require.Nil(t, errs.Load())
	require.Eventually(t, func() bool { return engine.Health(t.Context()).Ready }, 30*time.Second, 10*time.Millisecond)

	within, giveUp := context.WithTimeout(context.Background(), 10*time.Second)
	defer giveUp()
	require.NoError(t, engine.Stop(within))
	require.NoError(t, within.Err())
}
