package troupe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

var square = troupe.Define("square", func(b *troupe.Builder[int]) troupe.StepRef[int] {
	return troupe.Step0(b, "square", func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, errors.New("negative")
		}
		return n * n, nil
	})
})

var sums = troupe.Define("sums", func(b *troupe.Builder[int]) troupe.StepRef[int] {
	next := troupe.Step0(b, "next", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	first := troupe.Child(b, "first", square, next)
	second := troupe.Child(b, "second", square, first)
	return troupe.Step2(b, "add", func(_ context.Context, _, a, c int) (int, error) { return a + c, nil }, first, second)
})

func TestAStepRunsAnotherWorkflow(t *testing.T) {
	t.Parallel()
	e, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	_, err = troupe.Register(e, square)
	require.NoError(t, err)
	h, err := troupe.Register(e, sums)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context()))
	defer func() { _ = e.Stop(context.WithoutCancel(t.Context())) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := h.Run(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, 9+81, out)
	_, err = h.Run(ctx, -5)
	require.ErrorContains(t, err, "negative")
}
