package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/workflow"
)

func run(n byte) workflow.RunID { return workflow.RunID{15: n} }

func TestCoalescer(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ready := func(queue string, count int, key uint64) cluster.Wake {
		return cluster.Wake{Kind: cluster.WakeReady, Queue: queue, Count: count, Key: key}
	}
	timer := func(at time.Time) cluster.Wake { return cluster.Wake{Kind: cluster.WakeTimer, At: at} }
	about := func(kind cluster.WakeKind, n byte) cluster.Wake { return cluster.Wake{Kind: kind, Run: run(n)} }
	limits := cluster.WakeLimits{Queues: 2, Runs: 2}
	for name, c := range map[string]struct{ add, want []cluster.Wake }{
		"nothing": {nil, []cluster.Wake{}},
		"counts of a queue add up, its first key stays": {
			[]cluster.Wake{ready("a", 2, 7), ready("b", 1, 8), ready("a", 3, 9)},
			[]cluster.Wake{ready("a", 5, 7), ready("b", 1, 8)},
		},
		"an unknown count stays unknown": {
			[]cluster.Wake{ready("a", 2, 7), ready("a", 0, 0), ready("a", 3, 9)},
			[]cluster.Wake{ready("a", 0, 7)},
		},
		"too many queues become any": {
			[]cluster.Wake{ready("a", 2, 7), ready("b", 1, 8), ready("c", 4, 9), ready("a", 1, 10)},
			[]cluster.Wake{ready("", 8, 7)},
		},
		"any queue covers the named": {
			[]cluster.Wake{ready("a", 2, 7), ready("", 1, 8), ready("b", 1, 9)},
			[]cluster.Wake{ready("", 4, 7)},
		},
		"the earliest timer": {
			[]cluster.Wake{timer(noon), timer(noon.Add(-time.Second)), timer(noon.Add(time.Second))},
			[]cluster.Wake{timer(noon.Add(-time.Second))},
		},
		"runs once each, by kind": {
			[]cluster.Wake{about(cluster.WakeEnded, 1), about(cluster.WakeCanceling, 1), about(cluster.WakeEnded, 1), about(cluster.WakeEnded, 2)},
			[]cluster.Wake{about(cluster.WakeCanceling, 1), about(cluster.WakeEnded, 1), about(cluster.WakeEnded, 2)},
		},
		"too many runs become any": {
			[]cluster.Wake{about(cluster.WakeEnded, 1), about(cluster.WakeEnded, 2), about(cluster.WakeEnded, 3), about(cluster.WakeEnded, 4)},
			[]cluster.Wake{{Kind: cluster.WakeEnded}},
		},
		"any run covers the named": {
			[]cluster.Wake{about(cluster.WakeCanceling, 1), {Kind: cluster.WakeCanceling}},
			[]cluster.Wake{{Kind: cluster.WakeCanceling}},
		},
		"submissions once, unknown kinds never": {
			[]cluster.Wake{{Kind: cluster.WakeSubmitted}, {Kind: 99}, {}, {Kind: cluster.WakeSubmitted}},
			[]cluster.Wake{{Kind: cluster.WakeSubmitted}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			co := cluster.NewCoalescer(limits)
			for range 2 { // a drained one starts afresh
				co.Add(c.add...)
				require.Equal(t, len(c.want), co.Len())
				if diff := cmp.Diff(c.want, co.Drain()); diff != "" {
					t.Errorf("wakes (-want +got):\n%s", diff)
				}
			}
			require.Zero(t, co.Len())
		})
	}
}

func TestCoalescerIsBounded(t *testing.T) {
	t.Parallel()
	limits := cluster.DefaultWakeLimits()
	co := cluster.NewCoalescer(limits)
	for i := range 100_000 {
		id := workflow.RunID{0: 1, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
		co.Add(cluster.Wake{Kind: cluster.WakeReady, Queue: fmt.Sprint(i), Count: 1},
			cluster.Wake{Kind: cluster.WakeEnded, Run: id}, cluster.Wake{Kind: cluster.WakeCanceling, Run: id})
		require.LessOrEqual(t, co.Len(), limits.Queues+2*limits.Runs)
	}
	require.Equal(t, []cluster.Wake{
		{Kind: cluster.WakeReady, Count: 100_000}, {Kind: cluster.WakeCanceling}, {Kind: cluster.WakeEnded},
	}, co.Drain())
}
