package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

func TestRankIsAPermutationThatAllPodsAgreeOn(t *testing.T) {
	t.Parallel()
	const pods, keys = 5, 5000
	firsts := make([]int, pods)
	for key := range uint64(keys) {
		var ranks []int
		for place := range pods {
			rank := cluster.Order{Idle: pods, Place: place}.Rank("default", key<<4)
			ranks = append(ranks, rank)
			if rank == 0 {
				firsts[place]++
			}
		}
		slices.Sort(ranks)
		require.Equal(t, []int{0, 1, 2, 3, 4}, ranks)
	}
	for place, count := range firsts {
		require.InDelta(t, keys/pods, count, keys/20, "place %d", place)
	}
}

func TestRankOfFewIsTheFirst(t *testing.T) {
	t.Parallel()
	require.Zero(t, cluster.Order{}.Rank("default", 1), "no pod was counted")
	require.Zero(t, cluster.Order{Idle: 1}.Rank("default", 3), "alone")
	require.Zero(t, cluster.Order{Idle: 1, Place: 1}.Rank("default", 3), "full, and one other is idle")
	require.Less(t, cluster.Order{Idle: 3, Place: 3}.Rank("default", 3), 3, "full, and three others are idle")
}

func TestAnswerDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rank, count, slots int
		want               time.Duration
		silent             bool
	}{
		{rank: 0, count: 1, slots: 10, want: 0},
		{rank: 1, count: 1, slots: 10, want: 3 * time.Millisecond},
		{rank: 2, count: 1, slots: 10, want: 6 * time.Millisecond},
		{rank: 8, count: 1, slots: 10, want: 384 * time.Millisecond},
		{rank: 9, count: 1, slots: 10, silent: true},
		{rank: 2, count: 30, slots: 10, want: 0},
		{rank: 3, count: 30, slots: 10, want: 3 * time.Millisecond},
		{rank: 3, count: 31, slots: 10, want: 0},
		{rank: 3, count: 2, slots: 0, want: 6 * time.Millisecond},
		{rank: 9, count: 0, slots: 10, want: 0},
		{rank: 1 << 40, count: 1, slots: 10, silent: true},
	} {
		delay, ok := cluster.AnswerDelay(c.rank, c.count, c.slots)
		require.Equal(t, c.want, delay, "%+v", c)
		require.Equal(t, !c.silent, ok, "%+v", c)
	}
}
