package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// F02: a crash after an effect and before its completion repeats the effect
// under the same idempotency key.
func TestCrashAfterEffect(t *testing.T) {
	t.Parallel()
	y := newYard(t, brisk(), 0)
	pods := y.start("pod-1", "pod-2")
	ids := y.trigger(pods[0], "crash", 1)
	revived := 0
	y.until("the run has ended", patience, func() bool {
		revived += y.revive("pod-1", "pod-2")
		return y.number(openSQL) == 0
	})
	keys := map[string]int{}
	for _, e := range readLedgers(t, y.dir) {
		if e.what == "effect" {
			keys[e.detail]++
		}
	}
	require.Len(t, keys, 1, "every attempt has the same key")
	for _, times := range keys {
		require.Equal(t, 2, times)
	}
	v := y.judge()
	require.Len(t, ids, 1)
	measured(t, "F02", "the process ends after the effect and before the completion",
		"%d crash, the effect twice under one key; %v", revived, v)
}

// F16: a step function that ends every process that executes it is given up
// after three, and others complete.
func TestPoisonPill(t *testing.T) {
	t.Parallel()
	tune := brisk()
	tune.MaxLost = 3
	y := newYard(t, tune, 2)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	poison := y.trigger(pods[0], "poison", 1)[0]
	crashes := 0
	y.until("the poisoned run is given up", patience, func() bool {
		crashes += y.revive("pod-1", "pod-2", "pod-3")
		return y.number(`select count(*)::int from troupe.every_run where id = $1 and state = 11`, poison) == 1
	})
	require.Equal(t, 3, crashes)
	v := y.settle()
	measured(t, "F16", "a step function calls os.Exit", "given up as lost after %d crashes; %v", crashes, v)
}

// revive starts pods that have ended, and returns how many.
func (y *yard) revive(names ...string) int {
	y.t.Helper()
	revived := 0
	for _, name := range names {
		if y.named(name) == nil {
			y.spawn(name)
			revived++
		}
	}
	return revived
}
