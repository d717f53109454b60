package acceptance

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// ledger is a step function's own code, which panics.
type ledger struct{ entries map[string]int }

func (l *ledger) book(account string) { l.entries[account]++ }

// A panic says where in the embedder's code it was, in the log and in the error, and shows
// no frame of the engine's.
func TestAPanicShowsTheFramesOfTheEmbedder(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var log bytes.Buffer
		_, handle := start(t, single(func(_ context.Context, in string) (int, error) {
			(&ledger{}).book(in)
			return 0, nil
		}, steady(2)), func(c *troupe.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		run := begin(t, handle, "cash")
		_, err := run.Await(t.Context())
		synctest.Wait()
		var ended *troupe.RunError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, "panic", ended.Class)
		var panics, failed, retried []string
		for line := range strings.Lines(log.String()) {
			switch {
			case strings.Contains(line, "step function panicked"):
				panics = append(panics, line)
			case strings.Contains(line, "step failed for good"):
				failed = append(failed, line)
			case strings.Contains(line, "is tried again"):
				retried = append(retried, line)
			}
		}
		require.Len(t, panics, 2)
		require.Len(t, retried, 1)
		require.Len(t, failed, 1)
		require.Contains(t, panics[1], "level=ERROR")
		require.Contains(t, panics[1], "run_id="+run.ID().String()+" workflow=single step=step tenant=default attempt=2")
		for _, text := range []string{err.Error(), ended.Text, panics[0], failed[0]} {
			require.Contains(t, text, "assignment to entry in nil map")
			require.Contains(t, text, "acceptance.(*ledger).book (")
			require.Contains(t, text, "spoken_test.go:")
			for _, foreign := range []string{"runtime.", "runtime/", "troupe/actors", "protoactor", "internal/program", "testing."} {
				require.NotContains(t, text, foreign)
			}
		}
	})
}

// reasonOf returns what Explain says of a step, as a status shows it.
func reasonOf[O any](t *testing.T, run *troupe.Run[O], name string) string {
	t.Helper()
	reasons, err := run.Explain(t.Context())
	require.NoError(t, err)
	for _, reason := range reasons {
		if reason.Step == name {
			reason.Step = ""
			return reason.String()
		}
	}
	require.Fail(t, "no reason", "step %q", name)
	return ""
}

// A status says of a queued step what Explain says, as soon as it is so.
func TestAStatusSaysWhatExplainSays(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newMemoryCluster()
		old := troupe.Define("versions", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", gives[bool](&diary{}, "old", "old"), troupe.After(troupe.Sleep(b, "sleep", day)))
		})
		elsewhere := troupe.Define("elsewhere", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "step", gives[bool](&diary{}, "it", "it"), troupe.Queue("gpu"))
		})
		held := make(chan struct{})
		one, _ := w.pod(t)
		id := begin(t, join(t, one, old), true).ID()
		stop(t, one)

		two, _ := w.pod(t, func(c *troupe.Config) { c.QueueSlots = map[string]int{"default": 1} })
		unserved, err := troupe.Register(two, elsewhere)
		require.NoError(t, err)
		slow := join(t, two, single(func(context.Context, string) (int, error) { <-held; return 0, nil }))
		changed := slow.Get("", id)
		time.Sleep(day + time.Second)
		synctest.Wait()
		step := stepOf(t, changed, "after")
		require.Equal(t, troupe.StateQueued, step.State)
		require.Contains(t, step.Waiting, "no live pod registers it")
		require.Contains(t, step.Waiting, "start a pod of a version that has this step")
		require.Equal(t, reasonOf(t, changed, "after"), step.Waiting)

		none := begin(t, unserved, true)
		step = stepOf(t, none, "step")
		require.Contains(t, step.Waiting, `no pod that registers it serves the queue "gpu"`)
		require.Equal(t, reasonOf(t, none, "step"), step.Waiting)

		first, second := begin(t, slow, ""), begin(t, slow, "")
		require.Empty(t, stepOf(t, first, "step").Waiting, "it runs")
		step = stepOf(t, second, "step")
		require.Contains(t, step.Waiting, "all 1 slot busy")
		require.Equal(t, reasonOf(t, second, "step"), step.Waiting)
		close(held)
		_, err = second.Await(t.Context())
		require.NoError(t, err)
		require.Empty(t, stepOf(t, second, "step").Waiting)

		time.Sleep(2 * time.Minute)
		synctest.Wait()
		h := two.Health(t.Context())
		require.True(t, h.Ready && h.Leading)
		require.Contains(t, h.Degraded, `no living pod registers step "after" of workflow "versions"`)
		require.Contains(t, h.Degraded, "or cancel the runs")
		require.Equal(t, h.Degraded, h.Reason)
		three, _ := w.pod(t)
		_, err = join(t, three, old).Get("", id).Await(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Empty(t, two.Health(t.Context()).Degraded)
	})
}

// Slots that wait for runs of another engine are not what those runs need.
func TestStepsThatWaitForRunsOfAnotherEngine(t *testing.T) {
	virtual(t, func(t *testing.T) {
		held := make(chan struct{})
		_, inner := start(t, single(func(context.Context, string) (int, error) { <-held; return 1, nil }))
		var began sync.WaitGroup
		began.Add(1)
		engine, outer := start(t, single(func(ctx context.Context, in string) (int, error) {
			began.Done()
			return inner.Run(ctx, in)
		}), slots(1))
		run := begin(t, outer, "")
		began.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, engine.Stats().Free)
		require.Empty(t, engine.Health(t.Context()).Degraded)
		close(held)
		_, err := run.Await(t.Context())
		require.NoError(t, err)
	})
}
