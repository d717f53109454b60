package acceptance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// B44: inputs, outputs and progress are in no log and no event, however the step
// ends.
func TestB44PayloadsAreInNoLogAndNoEvent(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const canary = "canary-5eb1c0"
		var log lockedBuffer
		engine, handle := start(t, troupe.Define("secretive", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			first := troupe.Step0(b, "first", func(ctx context.Context, in string) (string, error) {
				return in, troupe.Heartbeat(ctx, in)
			})
			return troupe.Step1(b, "second", func(ctx context.Context, in, _ string) (string, error) {
				switch troupe.Task(ctx).Attempt {
				case 1:
					return "", errBusy
				case 2:
					panic(errBusy)
				case 3:
					<-ctx.Done()
					return "", ctx.Err()
				}
				return in, troupe.Terminal(errBusy)
			}, first, steady(4), troupe.AttemptTimeout(time.Minute))
		}), func(c *troupe.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		run, err := handle.RunNoWait(t.Context(), "password="+canary)
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.True(t, errors.Is(err, troupe.ErrRunFailed))
		require.NotContains(t, err.Error(), canary)
		for event, err := range run.Events(t.Context()) {
			require.NoError(t, err)
			require.NotContains(t, event.Text+event.By+event.Class, canary, event.Kind)
		}
		page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Len(t, page.Letters, 1)
		require.NotContains(t, page.Letters[0].Error, canary)
		require.NotEmpty(t, log.String(), "nothing was logged at all")
		require.NotContains(t, log.String(), canary)
	})
}
