package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchPrintsAgainUntilTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		began, drawn := time.Now(), 0
		err := Watch(ctx, &out, 2*time.Second, func(out io.Writer) error {
			if drawn++; drawn == 3 {
				cancel()
			}
			_, err := fmt.Fprintln(out, drawn)
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, "1\n2\n3\n", out.String())
		require.Equal(t, 4*time.Second, time.Since(began))

		wrong := errors.New("gone")
		require.ErrorIs(t, Watch(t.Context(), &out, time.Second, func(io.Writer) error { return wrong }), wrong)
	})
}

// A frame replaces the one before, and fits the terminal.
func TestFramesFitTheTerminal(t *testing.T) {
	t.Parallel()
	s := &screen{size: func() (int, int, error) { return 8, 4, nil }}
	require.Equal(t, "\x1b[H\x1b[Jone\nlonger …\n", string(s.frame([]byte("one\nlonger than that\n"))))
	require.Equal(t, "\x1b[H\x1b[J1\n2\n… and 3…\n", string(s.frame([]byte("1\n2\n3\n4\n5\n"))))
	s.size = func() (int, int, error) { return 80, 4, nil }
	require.Equal(t, "\x1b[H\x1b[J1\n2\n… and 3 more lines\n", string(s.frame([]byte("1\n2\n3\n4\n5\n"))))
	s.size = func() (int, int, error) { return 0, 0, errors.New("no size") }
	require.Equal(t, "\x1b[H\x1b[J1\n", string(s.frame([]byte("1\n"))))
	require.Nil(t, screenOf(&strings.Builder{}))
	require.Equal(t, "1\n", string((*screen)(nil).frame([]byte("1\n"))))
}

// Waits double while nothing is found, and begin anew once something is.
func TestFollowLooksLessOftenWhileNothingComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		follow := func(finds map[int]bool, looks int) error {
			at, began = nil, time.Now()
			return Follow(t.Context(), time.Second, 4*time.Second, func() (found, over bool, err error) {
				at = append(at, time.Since(began))
				return finds[len(at)], len(at) == looks, nil
			})
		}
		require.NoError(t, follow(map[int]bool{4: true}, 6))
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 8 * time.Second, 10 * time.Second}, at)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, Follow(ctx, time.Second, time.Second, func() (bool, bool, error) { return false, false, nil }), context.Canceled)
	})
}
