package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// F02: a crash after an effect and before its completion repeats the effect
// under the same idempotency key.
func TestCrashAfterEffect(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F02", Name: "crash-after-effect", Fault: "the process ends after the effect and before its completion",
		Must:    "I3 I11; the effect is repeated under the same key",
		Allowed: []figure{exactly("effects per key", 2), exactly("keys", 1)},
	})
	y := newYard(r, brisk(), 0)
	pods := y.start("pod-1", "pod-2")
	ids := y.trigger(pods[0], "crash", 1)
	revived := 0
	y.until("the run has ended", patience, func() bool {
		revived += y.revive("pod-1", "pod-2")
		return y.number(openSQL) == 0
	})
	keys := map[string]int{}
	for _, e := range readLedgers(r, y.dir) {
		if e.what == "effect" {
			keys[e.detail]++
		}
	}
	r.count("keys", len(keys))
	for _, times := range keys {
		r.count("effects per key", times)
	}
	require.Len(r, ids, 1)
	require.Equal(r, 1, revived)
	y.judge()
}

// F16: a step function that ends every process that executes it is given up
// after three, and others complete.
func TestPoisonPill(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F16", Name: "poison-exit", Fault: "a step function calls os.Exit in whatever pod executes it, under load",
		Must:    "I13 I14; given up as lost, others complete",
		Allowed: []figure{exactly("crashes", 3)},
	})
	tune := brisk()
	tune.MaxLost = 3
	y := newYard(r, tune, 2)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	poison := y.trigger(pods[0], "poison", 1)[0]
	crashes := 0
	y.until("the poisoned run is given up", patience, func() bool {
		crashes += y.revive("pod-1", "pod-2", "pod-3")
		return y.number(`select count(*)::int from troupe.every_run where id = $1 and state = 11`, poison) == 1
	})
	r.count("crashes", crashes)
	y.settle()
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
