package troupe

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
)

// waiting is a log handler that writes nothing before it may.
type waiting struct {
	slog.Handler

	may chan struct{}

	mu    sync.Mutex
	lines []string
}

func newWaiting() *waiting { return &waiting{Handler: slog.DiscardHandler, may: make(chan struct{})} }

// Enabled implements slog.Handler.
func (*waiting) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (w *waiting) WithAttrs([]slog.Attr) slog.Handler { return w }

// Handle implements slog.Handler.
func (w *waiting) Handle(_ context.Context, record slog.Record) error {
	<-w.may
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, record.Message)
	return nil
}

func (w *waiting) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

// dropped counts log records that are dropped, and nothing else.
type dropped struct {
	actors.NoMetrics

	mu    sync.Mutex
	count float64
}

// Add implements Metrics.
func (d *dropped) Add(metric actors.Metric, delta float64, _ ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if metric == actors.MetricLogDropped {
		d.count += delta
	}
}

// logged starts an engine of virtual time whose log goes through a queue.
func logged(t *testing.T, config Config, handler slog.Handler) (*Engine, *Handle[string, string]) {
	t.Helper()
	config.Logger = slog.New(handler)
	engine, err := newEngine(config.alone(), openMemory)
	require.NoError(t, err)
	engine.queueLogs()
	handle, err := Register(engine, Define("w", func(b *Builder[string]) StepRef[string] {
		return Step0(b, "step", func(_ context.Context, in string) (string, error) { return in, nil })
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	return engine, handle
}

// A pod whose log is stuck works, says so, and says how much was lost once the
// log works again.
func TestHealthSaysThatTheLogIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, handler := &dropped{}, newWaiting()
		engine, handle := logged(t, Config{Metrics: lost}, handler)
		log := engine.config.Logger
		log.Info("held")
		require.Empty(t, engine.Health(t.Context()).Degraded)
		time.Sleep(logsStuck + time.Second)
		h := engine.Health(t.Context())
		require.Contains(t, h.Degraded, "log handler takes nothing for 11s: records wait")
		for range 2000 {
			log.Info("more")
		}
		h = engine.Health(t.Context())
		require.Contains(t, h.Degraded, "log handler takes nothing for 11s: records are dropped")
		require.Equal(t, h.Degraded, h.Reason)
		require.True(t, h.Live && h.Ready)
		_, err := handle.Run(t.Context(), "x")
		require.NoError(t, err)

		handler.may <- struct{}{}
		synctest.Wait()
		time.Sleep(logsStuck / 2)
		require.Empty(t, engine.Health(t.Context()).Degraded, "it took a record not long ago")
		handler.may <- struct{}{}
		synctest.Wait()
		time.Sleep(logsStuck - time.Second)
		require.Contains(t, engine.Health(t.Context()).Degraded, "log handler is too slow for 14s: records are dropped")

		close(handler.may)
		synctest.Wait()
		require.Empty(t, engine.Health(t.Context()).Degraded)
		require.Contains(t, handler.written(), "log records were dropped, the log handler was too slow for them")
		require.Greater(t, lost.count, 900.0)
		require.NoError(t, engine.Stop(t.Context()))
	})
}

// Stop waits for a log that is slow, not for one that is stuck, and with an
// ended context hardly at all.
func TestStopWaitsForTheLogForASecond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended    bool          // the context of Stop
		writes   time.Duration // after which the log works again; 0: never
		at, most time.Duration
	}{
		"slow":          {false, 300 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		"stuck":         {false, 0, logsFlush, logsFlush},
		"stuck, ended":  {true, 0, logsFlushLate, 2 * logsFlushLate},
		"no time, slow": {true, logsFlushLate / 2, logsFlushLate / 2, logsFlushLate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handler := newWaiting()
				engine, _ := logged(t, Config{}, handler)
				synctest.Wait()
				begun := time.Now()
				if c.writes != 0 {
					go func() {
						time.Sleep(c.writes)
						close(handler.may)
					}()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.ended {
					cancel()
				}
				require.ErrorIs(t, engine.Stop(ctx), ctx.Err())
				took := time.Since(begun)
				require.GreaterOrEqual(t, took, c.at)
				require.LessOrEqual(t, took, c.most)
				if c.writes != 0 {
					require.Contains(t, handler.written(), "stopping")
				} else {
					close(handler.may)
				}
			})
		})
	}
}

// A start that failed leaves no line behind.
func TestAFailedStartWritesItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := newWaiting()
		engine, err := newEngine(Config{Logger: slog.New(handler)}, func(_ context.Context, config Config) (*backend, error) {
			config.Logger.Info("a hint")
			return nil, ErrNotStarted
		})
		require.NoError(t, err)
		engine.queueLogs()
		go func() {
			time.Sleep(logsFlush / 2)
			close(handler.may)
		}()
		require.ErrorIs(t, engine.Start(t.Context()), ErrNotStarted)
		require.Equal(t, []string{"a hint"}, handler.written())
	})
}
