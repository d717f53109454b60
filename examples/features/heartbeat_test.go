package features_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A step that takes long says with Heartbeat that it is alive, and how far it
// has come. One that falls silent is ended, and the next attempt continues from
// the last progress instead of from the start.
func TestHeartbeatAndProgress(t *testing.T) {
	var copied []int
	copyPages := func(ctx context.Context, pages int) (int, error) {
		from, _ := troupe.Progress[int](ctx)
		for page := from; page < pages; page++ {
			if page == 60 && troupe.Task(ctx).Attempt == 1 {
				<-ctx.Done() // hangs
				return 0, context.Cause(ctx)
			}
			time.Sleep(time.Second)
			copied = append(copied, page)
			if err := troupe.Heartbeat(ctx, page+1); err != nil {
				return 0, err
			}
		}
		return pages, nil
	}
	w := troupe.Define("copy", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "copy", copyPages, troupe.HeartbeatTimeout(30*time.Second), troupe.Retry{Attempts: 2})
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		pages, err := handle.Run(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, 100, pages)
		require.Less(t, len(copied), 110, "hardly a page was copied twice")
	})
}

// AttemptTimeout bounds one attempt as a whole.
func TestAttemptTimeout(t *testing.T) {
	slow := func(ctx context.Context, _ string) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	w := troupe.Define("slow", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		return troupe.Step0(b, "slow", slow, troupe.AttemptTimeout(time.Minute))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, int]) {
		_, err := handle.Run(t.Context(), "")
		var ended *troupe.RunError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, "timed_out", ended.Class)
	})
}
