package acceptance

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String implements fmt.Stringer.
func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The budget that is logged at the start is kept under load.
func TestTheConnectionBudgetIsKept(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	log := &lockedText{}
	config := troupe.Config{PoolSize: 3, Logger: slog.New(slog.NewTextHandler(log, nil))}
	engine, handle := starting(t, pool, config)
	require.NoError(t, engine.Start(t.Context()))
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "engine_max=7 of_them_pool=3 of_them_dedicated=4")
	}, 30*time.Second, time.Millisecond)
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for range 10 {
				_, err := handle.Run(t.Context(), "")
				require.NoError(t, err)
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		callers.Wait()
		close(stopped)
	}()
	most, ticks := 0, time.NewTicker(5*time.Millisecond)
	defer ticks.Stop()
	for done := false; !done; {
		var now int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and application_name like 'troupe%'`).Scan(&now))
		most = max(most, now)
		select {
		case <-stopped:
			done = true
		case <-ticks.C:
		}
	}
	require.LessOrEqual(t, most, config.Connections())
	require.NoError(t, engine.Stop(context.Background()))
}
