package actors

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A pod whose essential calls are rejected is not ready. Other rejected calls are
// reported.
func TestAPodWhoseCallsAreRefusedSaysSo(t *testing.T) {
	t.Parallel()
	damaged := errors.New("invalid page in block 17")
	for name, test := range map[string]struct {
		call  string
		err   error
		ready bool
	}{
		"claims":                  {call: "claim", err: damaged},
		"records":                 {call: "record", err: damaged},
		"claims that wait a lock": {call: "claim", err: persistence.ErrConflict, ready: true},
		"archiving":               {call: "archive", err: damaged, ready: true},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Millisecond), Config{})
			pass(time.Second)
			w.faults.failBefore(failing(test.call, test.err))
			run := w.trigger(p, "single")
			pass(5 * time.Second)
			require.Empty(t, p.Stats().Degraded)
			require.True(t, p.Stats().Ready)
			pass(2 * time.Minute)
			require.Contains(t, p.Stats().Degraded, test.err.Error())
			require.Equal(t, test.ready, p.Stats().Ready)
			w.faults.failBefore(nil)
			pass(2 * time.Minute)
			require.Empty(t, p.Stats().Degraded)
			require.True(t, p.Stats().Ready)
			w.completed(run)
		}))
	}
}

// errLostInput is the error of a database that has lost an input.
var errLostInput = errors.New("missing chunk number 0")

// A task with unreadable inputs neither fails nor is tried at full speed: each round
// writes rows.
func TestATaskWhoseInputsAreLostRests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.failBefore(failing("payload", errLostInput))
		p := w.single(newGauge().work(time.Millisecond), Config{})
		order := w.order("single")
		order.Input = []byte(`"` + strings.Repeat("x", persistence.InlinePayloadMax) + `"`)
		answers := w.stores(p, []persistence.Trigger{order})
		pass(time.Minute)
		require.LessOrEqual(t, w.count("payload"), 7, "in a minute")
		require.Greater(t, w.count("payload"), 1, "it is tried again")
		w.faults.failBefore(nil)
		w.completed(answers[0].Run)
	})
}
