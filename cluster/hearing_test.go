package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

func TestHearing(t *testing.T) {
	t.Parallel()
	ping := func(from, epoch int64, mode cluster.Mode, relayed int64) cluster.Notice {
		return cluster.Notice{From: from, Ping: &cluster.Ping{Epoch: epoch, Mode: mode, Relayed: relayed}}
	}
	wakes := func(from int64, n int) cluster.Notice {
		return cluster.Notice{From: from, Wakes: make([]cluster.Wake, n)}
	}
	const relay, stream = cluster.ModeRelay, cluster.ModeStream
	type heard struct {
		notice cluster.Notice
		sweep  bool
	}
	for name, script := range map[string][]heard{
		"the first ping":         {{ping(1, 5, relay, 40), true}, {ping(1, 5, relay, 40), false}},
		"nothing missed":         {{ping(1, 5, relay, 40), true}, {wakes(1, 3), false}, {ping(1, 5, relay, 43), false}},
		"one missed, one sweep":  {{ping(1, 5, relay, 40), true}, {wakes(1, 2), false}, {ping(1, 5, relay, 43), true}, {ping(1, 5, relay, 43), false}},
		"writers do not count":   {{ping(1, 5, relay, 40), true}, {wakes(2, 3), false}, {ping(1, 5, relay, 43), true}},
		"counted late":           {{ping(1, 5, relay, 40), true}, {wakes(1, 2), false}, {ping(1, 5, relay, 41), false}, {ping(1, 5, relay, 42), false}},
		"another mode":           {{ping(1, 5, relay, 0), true}, {ping(1, 5, stream, 0), true}, {ping(1, 5, stream, 0), false}},
		"a new leader":           {{ping(1, 5, relay, 40), true}, {ping(2, 6, relay, 0), true}, {wakes(2, 1), false}, {ping(2, 6, relay, 1), false}},
		"an old leader wakes up": {{ping(2, 6, relay, 9), true}, {ping(1, 5, stream, 40), false}, {ping(2, 6, relay, 9), false}},
		"wakes before any ping":  {{wakes(1, 3), false}, {ping(1, 5, relay, 3), true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h cluster.Hearing
			_, known := h.Ping()
			require.False(t, known)
			for i, step := range script {
				require.Equal(t, step.sweep, h.Hear(step.notice), "step %d", i)
			}
			last, known := h.Ping()
			require.True(t, known)
			require.GreaterOrEqual(t, last.Epoch, int64(5))
		})
	}
}
