package acceptance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// odd is a caller's context of their own making.
type odd struct {
	context.Context
	done  chan struct{}
	err   func() error
	value func() any
}

func (o odd) Done() <-chan struct{} { return o.done }
func (o odd) Err() error            { return o.err() }
func (o odd) Value(any) any         { return o.value() }

// A caller's context that ends without an error, or panics in any method, costs that
// caller its answer, and no other caller anything.
func TestAContextOfACallersOwnMakingEndsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	_, handle := started(t, troupe.Config{}, single(func(context.Context, string) (int, error) {
		<-release
		return 1, nil
	}))
	run, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	for name, makes := range map[string]func(ended *atomic.Bool) odd{
		"no error at its end": func(*atomic.Bool) odd {
			return odd{err: func() error { return nil }, value: func() any { return nil }}
		},
		"panics for its error": func(ended *atomic.Bool) odd {
			return odd{value: func() any { return nil }, err: func() error {
				if ended.Load() {
					panic("no error")
				}
				return nil
			}}
		},
		"panics for a value": func(*atomic.Bool) odd {
			return odd{err: func() error { return nil }, value: func() any { panic("no value") }}
		},
	} {
		var ended atomic.Bool
		ctx := makes(&ended)
		ctx.Context, ctx.done = context.Background(), make(chan struct{})
		waits := make(chan error, 1)
		go func() {
			_, err := run.Await(ctx)
			waits <- err
		}()
		_, err := run.Status(ctx)
		require.NoError(t, err, name)
		ended.Store(true)
		close(ctx.done)
		require.Error(t, <-waits, name)
		_, err = handle.RunNoWait(ctx, "y")
		require.Error(t, err, name)
		_, err = run.Status(ctx)
		require.Error(t, err, name)
	}
	close(release)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := run.Await(limited)
	require.NoError(t, err)
	require.Equal(t, 1, got)
}
