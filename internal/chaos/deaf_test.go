package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// F17: step functions that do not listen to their context give up their slots,
// up to a limit; they are counted, and forgotten when they return.
func TestDeafStepFunctions(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F17", Name: "deaf-step", Fault: "step functions ignore the end of their context, in every slot of the only pod, and then more than it replaces",
		FullOnly: true, Must: "I12 I13; slots accounted, replaced up to the limit, stuck is shown",
		Allowed: []figure{
			within("slots free again after", deafTimeout+5*time.Second), exactly("stuck shown", 4),
			atMost("stuck at most", 14, ""), none("stuck after they returned"),
		},
	})
	tune := brisk()
	tune.Slots = 4
	y := newYard(r, tune, 0)
	pods := y.start("pod-1")
	y.trigger(pods[0], "deaf", 4)
	y.eventually("every slot has a deaf function", func() bool { return count(readLedgers(r, y.dir), "begun") == 4 })
	took := y.until("the slots are free again", patience, func() bool { return y.stats(pods[0]).Free == 4 })
	r.took("slots free again after", took)
	shown := y.health(pods[0])
	r.count("stuck shown", shown.Stuck)
	require.True(r, shown.Live && shown.Ready, "the pod works on: %+v", shown)
	require.Contains(r, shown.Degraded, "4 step functions still run after the end of their contexts")
	y.eventually("the log names them", func() bool { return y.logged("workflow=deaf step=a running_for=") == 4 })
	y.trigger(pods[0], "tick", 4)
	y.eventually("others are executed", func() bool { return y.number(endedSQL) == 4 })
	const more, replaced = 12, 10
	y.trigger(pods[0], "deaf", more)
	y.eventually("the pod replaces no more", func() bool {
		s := y.stats(pods[0])
		return s.Stuck == replaced+4 && s.Free == 0
	})
	r.count("stuck at most", y.stats(pods[0]).Stuck)
	require.Equal(r, replaced+4, count(readLedgers(r, y.dir), "begun")-4)
	shown = y.health(pods[0])
	require.False(r, shown.Live, "nothing but a restart mends it")
	require.Contains(r, shown.Reason, "every slot is held by a step function that does not return")
	y.letGo("pod-1")
	y.eventually("all have returned", func() bool { return y.stats(pods[0]).Stuck == 0 && y.stats(pods[0]).Free == 4 })
	r.count("stuck after they returned", y.stats(pods[0]).Stuck)
	require.Equal(r, troupe.Health{Live: true, Ready: true}, troupe.Health{Live: y.health(pods[0]).Live, Ready: y.health(pods[0]).Ready})
	y.judge()
}
