package troupe

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
)

// attempt stands for the one that a run actor makes.
type attempt struct {
	task     actors.TaskInfo
	tx       any
	progress []byte
	over     error
}

func (a *attempt) Info() actors.TaskInfo { return a.task }
func (a *attempt) Tx() any               { return a.tx }
func (a *attempt) Waits(bool)            {}
func (a *attempt) Heartbeat(progress []byte) error {
	if progress != nil {
		a.progress = progress
	}
	return a.over
}

// upper is a codec that is not JSON.
type upper struct{ JSON }

func (upper) Marshal(value any) ([]byte, error) { return fmt.Appendf(nil, "UP %v", value), nil }
func (upper) Unmarshal(data []byte, target any) error {
	text, ok := target.(*string)
	if !ok {
		return fmt.Errorf("no text: %T", target)
	}
	*text = string(data)
	return nil
}

func TestStepContext(t *testing.T) {
	t.Parallel()
	a := &attempt{task: actors.TaskInfo{
		Workflow: "w", Tenant: "t", Step: "s", Attempt: 2, MaxAttempts: 3, AttemptID: "id", IdempotencyKey: "key",
		Labels: map[string]string{"a": "b"}, TraceContext: "00-1-2-01",
	}}
	ctx := actors.WithAttempt(t.Context(), a)
	require.Equal(t, TaskInfo{
		Workflow: "w", Tenant: "t", Step: "s", Attempt: 2, MaxAttempts: 3, AttemptID: "id", IdempotencyKey: "key",
		Labels: map[string]string{"a": "b"}, TraceContext: "00-1-2-01",
	}, Task(ctx))

	_, ok := Progress[int](ctx)
	require.False(t, ok)
	require.NoError(t, Heartbeat(ctx, nil))
	require.Nil(t, a.progress)
	require.NoError(t, Heartbeat(ctx, 7))
	require.Equal(t, "7", string(a.progress))
	a.task.LastProgress = a.progress
	progress, ok := Progress[int](ctx)
	require.True(t, ok)
	require.Equal(t, 7, progress)
	_, ok = Progress[string](ctx)
	require.False(t, ok, "what a T cannot hold is none")
	require.ErrorContains(t, Heartbeat(ctx, make(chan int)), "encode progress of type chan int")
	a.over = errors.New("over")
	require.ErrorIs(t, Heartbeat(ctx, 8), a.over)

	a.over = nil
	ctx = (&scope{codec: upper{}}).in(ctx)
	require.NoError(t, Heartbeat(ctx, "x"))
	require.Equal(t, "UP x", string(a.progress))
	text, ok := Progress[string](ctx)
	require.True(t, ok)
	require.Equal(t, "7", text)
}

func TestStepContextOutsideAStep(t *testing.T) {
	t.Parallel()
	require.Equal(t, TaskInfo{Item: -1}, Task(t.Context()))
	require.NoError(t, Heartbeat(t.Context(), 1))
	_, ok := Progress[int](t.Context())
	require.False(t, ok)
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	require.ErrorIs(t, Heartbeat(ctx, 1), over)
}

func TestTx(t *testing.T) {
	t.Parallel()
	var tx struct{ pgx.Tx }
	a := &attempt{task: actors.TaskInfo{Step: "s"}, tx: &tx}
	require.Equal(t, &tx, Tx(actors.WithAttempt(t.Context(), a)))
	require.PanicsWithValue(t, "troupe: Tx was called outside a step function", func() { Tx(t.Context()) })
	a.tx = nil
	require.PanicsWithValue(t, `troupe: step "s" has no transaction: declare it with InTx`, func() { Tx(actors.WithAttempt(t.Context(), a)) })
	a.tx = 1
	require.PanicsWithValue(t, "troupe: the transaction is a int: the engine does not run on PostgreSQL", func() { Tx(actors.WithAttempt(t.Context(), a)) })
}

// TestCodecReachesTheStep: inputs, outputs and progress go through the codec
// of the engine.
func TestCodecReachesTheStep(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[string]) StepRef[string] {
		return Step0(b, "s", func(ctx context.Context, in string) (string, error) { return in, Heartbeat(ctx, in) })
	})
	b, err := bind(w, Config{Codec: upper{}}.binding(nil))
	require.NoError(t, err)
	a := &attempt{}
	out, err := b.Functions[0].Call(actors.WithAttempt(t.Context(), a), actors.Inputs{Input: []byte("in")})
	require.NoError(t, err)
	require.Equal(t, "UP in", string(out.Payload))
	require.Equal(t, "UP in", string(a.progress))
}
