package acceptance

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/messages"
)

// The embedder's code may change values that it was given or has given: nothing else
// reads them. A run's first tasks are executed with the values of its trigger.

// started registers a workflow with an engine on a database of its own, and starts it.
func started[I, O any](t *testing.T, config troupe.Config, w *troupe.Workflow[I, O]) (*troupe.Engine, *troupe.Handle[I, O]) {
	t.Helper()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	handle, err := troupe.Register(engine, w)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	return engine, handle
}

func TestWhatAStepDoesToItsLabelsIsItsOwn(t *testing.T) {
	t.Parallel()
	var seen, foreign atomic.Int64
	_, handle := started(t, troupe.Config{}, single(func(ctx context.Context, in string) (int, error) {
		labels := troupe.Task(ctx).Labels
		seen.Add(int64(len(labels)))
		if labels["item"] != "" {
			foreign.Add(1)
		}
		labels["item"] = in
		return 0, nil
	}))
	option := troupe.Labels(map[string]string{"kind": "order"})
	var inputs []string
	for i := range 50 {
		inputs = append(inputs, fmt.Sprint(i))
	}
	for range 4 {
		runs, err := handle.RunMany(t.Context(), inputs, option)
		require.NoError(t, err)
		for _, run := range runs {
			_, err := run.Await(t.Context())
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 200, seen.Load(), "each found its run's")
	require.Zero(t, foreign.Load())
}

// inPlace is a codec that changes what it reads, as one does that decrypts in place.
type inPlace struct{ troupe.JSON }

// Unmarshal implements troupe.Codec.
func (inPlace) Unmarshal(data []byte, target any) error {
	err := json.Unmarshal(data, target)
	for i := range data {
		data[i] = 'x'
	}
	return err
}

func TestACodecMayChangeWhatItReads(t *testing.T) {
	t.Parallel()
	_, handle := started(t, troupe.Config{Codec: inPlace{}}, troupe.Define("fan", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		echo := func(_ context.Context, in string) (string, error) { return in, nil }
		left, right := troupe.Step0(b, "left", echo), troupe.Step0(b, "right", echo)
		join := func(_ context.Context, in, left, right string) (string, error) { return in + left + right, nil }
		below := troupe.Step2(b, "below", join, left, right)
		beside := troupe.Step2(b, "beside", join, left, right)
		return troupe.Step2(b, "end", join, below, beside)
	}))
	for range 5 {
		out, err := handle.Run(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, "aaaaaaa", out)
	}
}

// secret is text that is decoded in place, as package hex allows.
type secret string

// MarshalText implements encoding.TextMarshaler.
func (s secret) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, []byte(s)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *secret) UnmarshalText(text []byte) error {
	n, err := hex.Decode(text, text)
	*s = secret(text[:n])
	return err
}

func TestMethodsThatJSONCallsMayChangeWhatTheyRead(t *testing.T) {
	t.Parallel()
	_, handle := started(t, troupe.Config{}, troupe.Define("secrets", func(b *troupe.Builder[secret]) troupe.StepRef[secret] {
		echo := func(_ context.Context, in secret) (secret, error) { return in, nil }
		left, right := troupe.Step0(b, "left", echo), troupe.Step0(b, "right", echo)
		return troupe.Step2(b, "join", func(_ context.Context, in, left, right secret) (secret, error) { return in + left + right, nil }, left, right)
	}))
	for range 20 {
		out, err := handle.Run(t.Context(), "0123456789")
		require.NoError(t, err)
		require.Equal(t, secret("012345678901234567890123456789"), out)
	}
}

func TestAMessageIsItsSendersOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	var wrong atomic.Int64
	type order struct{ ID string }
	check := func(ctx context.Context, in order) (int, error) {
		if in.ID != troupe.Task(ctx).Labels["id"] {
			wrong.Add(1)
		}
		return 0, nil
	}
	engine, _ := started(t, troupe.Config{}, troupe.Define("orders", func(b *troupe.Builder[order]) troupe.StepRef[int] {
		first := troupe.Step0(b, "first", check)
		return troupe.Step1(b, "second", func(ctx context.Context, in order, _ int) (int, error) { return check(ctx, in) }, first)
	}))
	buffer := make([]byte, 0, 100)
	labels := map[string]string{}
	for i := range 100 {
		id := fmt.Sprintf("order-%04d", i)
		buffer = fmt.Appendf(buffer[:0], `{"ID":%q}`, id)
		labels["id"] = id
		answer, err := engine.System().Root.RequestFuture(engine.PID(), &messages.TriggerRun{
			Workflow: "orders", Input: buffer, Labels: labels,
		}, 10*time.Second).Result()
		require.NoError(t, err)
		require.IsType(t, &messages.RunTriggered{}, answer)
	}
	require.Eventually(t, func() bool {
		page, err := engine.Runs(t.Context(), troupe.Filter{States: []troupe.State{troupe.StateCompleted}})
		return err == nil && len(page.Runs) == 100
	}, 30*time.Second, 10*time.Millisecond)
	require.Zero(t, wrong.Load())
}

// unwell is a log handler that panics when it is asked whether it is enabled.
type unwell struct{ slog.Handler }

// Enabled implements slog.Handler.
func (unwell) Enabled(context.Context, slog.Level) bool { panic("Enabled panics") }

func TestALogHandlerWhoseEnabledPanicsEndsNothing(t *testing.T) {
	t.Parallel()
	engine, handle := started(t, troupe.Config{Logger: slog.New(unwell{slog.DiscardHandler})}, single(number))
	_, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, engine.Stop(t.Context()))
	require.NoError(t, engine.Err())
}

func TestQueuesAreThoseThatTheEngineWasMadeWith(t *testing.T) {
	t.Parallel()
	slots := map[string]int{"default": 3}
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	engine, err := troupe.New(pool, troupe.Config{QueueSlots: slots})
	require.NoError(t, err)
	slots["default"] = 0
	handle, err := troupe.Register(engine, single(number))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	_, err = handle.Run(t.Context(), "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return engine.Stats().Free == 3 }, 30*time.Second, time.Millisecond, "the step's slot is given back just after its run's end is known")
}
