package actors

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// The leader says which work no living pod can execute: once an hour in its log, and in its
// health until a pod can.
func TestWorkThatNoPodCanExecuteIsSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.logs()
		const message = "no living pod can execute a step"
		w.register(storetest.Diamond(), newGauge().work(time.Millisecond))
		known := maps.Clone(w.functions)
		clear(w.functions)
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		leader, other := w.start(Config{}), w.start(Config{})
		pass(time.Second) // the leader's first look is over, so that the next one finds all three
		runs := w.many(leader, "diamond", 3)
		pass(2 * parkEvery)
		if other.Stats().Leading {
			leader, other = other, leader
		}
		lines := l.of(message)
		require.Len(t, lines, 1)
		for _, want := range []string{"level=WARN", "workflow=diamond", "step=a", "definition=" + w.graphs["diamond"].Hash.String(), "tasks=3"} {
			require.Contains(t, lines[0], want)
		}
		require.Contains(t, leader.Stats().Parked, `no living pod registers step "a" of workflow "diamond"`)
		require.Contains(t, leader.Stats().Parked, "start a pod of a version that has this step")
		require.EqualValues(t, 3, leader.rt.recorder.value(MetricParked))
		require.Empty(t, other.Stats().Parked, "it does not lead")
		kill(leader, "housekeeper")
		pass(parkedQuiet / 2)
		require.Len(t, l.of(message), 1)
		pass(parkedQuiet/2 + parkEvery)
		require.Len(t, l.of(message), 2, "an hour later")
		leader.Kill()
		pass(parkEvery)
		require.Len(t, l.of(message), 3, "another pod leads")
		require.NotEmpty(t, other.Stats().Parked)

		maps.Copy(w.functions, known)
		w.start(Config{})
		w.completed(runs...)
		pass(2 * parkEvery)
		require.Empty(t, other.Stats().Parked)
		require.Len(t, l.of(message), 3)
	})
}

func TestParkedTroubleCounts(t *testing.T) {
	t.Parallel()
	require.Empty(t, parkedTrouble(nil))
	work := []persistence.ParkedWork{{Workflow: "w", Step: "a", Tasks: persistence.ParkedCountMax}, {Workflow: "w", Step: "b", Tasks: 1}}
	require.Contains(t, parkedTrouble(work), `(definition 00000000, parked tasks: at least 1000), nor another step with parked tasks: start`)
	require.Contains(t, parkedTrouble(append(work, work[1])), "nor 2 other steps with parked tasks: start")
	require.Contains(t, parkedTrouble(work[1:]), "parked tasks: 1): start")
}
