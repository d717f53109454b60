package troupe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
)

// A connection that had ended says nothing about the database: another is asked.
func TestAnEndedConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	boom, late := errors.New("boom"), fmt.Errorf("ping: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"one that is well":     {[]error{nil}, nil},
		"ended":                {[]error{&pgconn.PgError{Code: "57P01"}, nil}, nil},
		"ended by a crash":     {[]error{&pgconn.PgError{Code: "57P02"}, boom}, boom},
		"cut while it rested":  {[]error{io.ErrUnexpectedEOF, nil}, nil},
		"no server":            {[]error{boom, boom}, boom},
		"late":                 {[]error{late}, late},
		"a login that may not": {[]error{&pgconn.PgError{Code: "28000"}}, &pgconn.PgError{Code: "28000"}},
	} {
		asked := 0
		p := &probe{clock: clock.System{}, ping: func(context.Context) error {
			asked++
			return c.answers[asked-1]
		}}
		require.Equal(t, c.want, p.ask(t.Context()), name)
		require.Equal(t, c.want, p.ask(t.Context()), name)
		require.Len(t, c.answers, asked, name)
	}
}

// A database that answers after more than a second is not ready, and its connection is
// left to it: the lease is renewed on that.
func TestALateAnswerCostsNoConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := &probe{clock: clock.System{}, ping: func(ctx context.Context) error {
			asked++
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Duration(asked*asked) * 1500 * time.Millisecond):
				return nil
			}
		}}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.ask(ended), errNoAnswer)
		require.NoError(t, p.ask(t.Context()), "the same ping, which is still under way")
		require.Equal(t, 1, asked)
		time.Sleep(probeFresh)
		for range probeMax / probeTimeout {
			require.ErrorIs(t, p.ask(t.Context()), errNoAnswer)
		}
		require.ErrorIs(t, p.ask(t.Context()), context.DeadlineExceeded, "it is given up after all")
		require.Equal(t, 2, asked)
	})
}

// Probes come while an engine starts, too.
func TestHealthWhileAnEngineStarts(t *testing.T) {
	t.Parallel()
	for range 200 {
		engine, err := NewInMemory(Config{})
		require.NoError(t, err)
		started := make(chan error)
		go func() { started <- engine.Start(t.Context()) }()
		for begun := false; !begun; {
			select {
			case err := <-started:
				require.NoError(t, err)
				begun = true
			default:
				require.True(t, engine.Health(t.Context()).Live)
			}
		}
		require.NoError(t, engine.Stop(t.Context()))
	}
}
