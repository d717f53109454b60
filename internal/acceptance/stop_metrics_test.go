package acceptance

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// seized is a Metrics that calls a function once.
type seized struct{ next atomic.Pointer[func()] }

func (s *seized) Add(actors.Metric, float64, ...string) {
	if f := s.next.Swap(nil); f != nil {
		(*f)()
	}
}
func (s *seized) Set(actors.Metric, float64, ...string)     {}
func (s *seized) Observe(actors.Metric, float64, ...string) {}

// A Metrics that calls Stop deadlocks with the pod. Health reports it, and after a minute
// the pod is not live. A second Stop, whose context has ended, ends it.
func TestAStopFromMetricsIsNoPuzzle(t *testing.T) {
	virtual(t, func(t *testing.T) {
		metrics := &seized{}
		config := calm()
		config.Metrics = metrics
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		handle, err := troupe.Register(engine, single(func(context.Context, string) (int, error) { return 1, nil }))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		returned := make(chan struct{})
		stop := func() { defer close(returned); _ = engine.Stop(context.Background()) }
		metrics.next.Store(&stop)
		go func() { _, _ = handle.RunNoWait(t.Context(), "x") }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		health := engine.Health(t.Context())
		require.True(t, health.Live)
		require.False(t, health.Ready)
		require.Contains(t, health.Reason, "the pod stops; Config.Metrics has not returned to an actor (")
		time.Sleep(time.Minute)
		health = engine.Health(t.Context())
		require.False(t, health.Live)
		require.Contains(t, health.Reason, "restart the process")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		require.Error(t, engine.Stop(ended))
		require.Less(t, time.Since(began), time.Minute)
		<-returned
		require.False(t, engine.Health(t.Context()).Live, "it has ended with an error")
	})
}
