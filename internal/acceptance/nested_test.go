package acceptance

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// Steps that wait for runs hold their slots. A pod reports when they hold all of them,
// until a slot is free.
func TestStepsThatWaitForRunsInEverySlot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		config := calm()
		config.Slots = 2
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		inner, err := troupe.Register(engine, single(number))
		require.NoError(t, err)
		var both sync.WaitGroup // else the first one's inner run may have the slot of the second
		both.Add(2)
		outer, err := troupe.Register(engine, troupe.Define("outer", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, "wait", func(ctx context.Context, in string) (int, error) {
				both.Done()
				both.Wait()
				within, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				_, err := inner.Run(within, in)
				return 0, err
			}, troupe.Retry{Attempts: 1})
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		for range 2 {
			_, err := outer.RunNoWait(t.Context(), "")
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, engine.Health(t.Context()).Degraded)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		h := engine.Health(t.Context())
		require.True(t, h.Ready)
		require.Contains(t, h.Degraded, "every slot is held by a step function that waits for the end of another run")
		require.Contains(t, h.Degraded, "troupe.Child")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, engine.Health(t.Context()).Degraded)
	})
}

// A step that waits for several runs holds one slot: while another is at work, not every
// slot is held by such steps.
func TestAStepThatWaitsForSeveralRunsHoldsOneSlot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		config := calm()
		config.Slots = 2
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		inner, err := troupe.Register(engine, single(number))
		require.NoError(t, err)
		outer, err := troupe.Register(engine, troupe.Define("outer", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, "step", func(ctx context.Context, in string) (int, error) {
				if in == "works" {
					time.Sleep(30 * time.Second)
					return 0, nil
				}
				runs, err := inner.RunMany(ctx, []string{"1", "2"})
				if err != nil {
					return 0, err
				}
				var waits sync.WaitGroup
				for _, run := range runs {
					waits.Go(func() { _, _ = run.Await(ctx) })
				}
				waits.Wait()
				return 0, nil
			})
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		for _, in := range []string{"works", "waits"} {
			_, err := outer.RunNoWait(t.Context(), in)
			require.NoError(t, err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, engine.Stats().Running)
		require.Empty(t, engine.Health(t.Context()).Degraded)
		time.Sleep(time.Minute)
	})
}

// heldMetrics is a Metrics that blocks on a batch of triggers until it is released.
type heldMetrics struct {
	actors.NoMetrics

	goOn chan struct{}
}

func (m heldMetrics) Observe(metric actors.Metric, _ float64, _ ...string) {
	if metric == actors.MetricTriggerBatch {
		<-m.goOn
	}
}

// A pod blocked in Metrics is not ready, then not live.
func TestAPodThatMetricsHoldsIsNotLive(t *testing.T) {
	virtual(t, func(t *testing.T) {
		config := calm()
		goOn := make(chan struct{})
		config.Metrics = heldMetrics{goOn: goOn}
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		handle, err := troupe.Register(engine, single(number))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		go func() { _, _ = handle.Run(t.Context(), "") }()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		h := engine.Health(t.Context())
		require.False(t, h.Ready)
		require.True(t, h.Live)
		require.Contains(t, h.Reason, "Config.Metrics has not returned to an actor (intake)")
		time.Sleep(time.Minute)
		synctest.Wait()
		h = engine.Health(t.Context())
		require.False(t, h.Live)
		require.Contains(t, h.Reason, "restart the process")
		close(goOn)
		synctest.Wait()
		h = engine.Health(t.Context())
		require.True(t, h.Ready && h.Live)
		require.NoError(t, engine.Stop(context.Background()))
	})
}

// A step that waits for a run does not keep the memory that the run's payloads need.
func TestANestedRunReadsBesideTheStepThatWaitsForIt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		config := calm()
		config.PayloadMemory, config.PayloadLimit = 1<<20, 4<<20
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		inner, err := troupe.Register(engine, single(func(_ context.Context, in string) (int, error) { return len(in), nil }))
		require.NoError(t, err)
		outer, err := troupe.Register(engine, troupe.Define("outer", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, "wait", func(ctx context.Context, in string) (int, error) {
				within, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return inner.Run(within, in+in)
			})
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		length, err := outer.Run(t.Context(), strings.Repeat("x", 900_000))
		require.NoError(t, err)
		require.Equal(t, 1_800_000, length)
	})
}
