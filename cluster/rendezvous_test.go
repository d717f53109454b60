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
	pods := []int64{3, 4, 9, 12, 700}
	firsts := map[int64]int{}
	const keys = 5000
	for key := range uint64(keys) {
		var ranks []int
		for _, pod := range pods {
			rank := cluster.Rank(pod, pods, "default", key<<4)
			ranks = append(ranks, rank)
			if rank == 0 {
				firsts[pod]++
			}
		}
		slices.Sort(ranks)
		require.Equal(t, []int{0, 1, 2, 3, 4}, ranks)
	}
	for _, pod := range pods {
		require.InDelta(t, keys/len(pods), firsts[pod], keys/20, "pod %d", pod)
	}
}

func TestRankOfTheOthersStaysWhenAPodLeaves(t *testing.T) {
	t.Parallel()
	for key := range uint64(1000) {
		before := cluster.Rank(1, []int64{1, 2, 3}, "default", key)
		after := cluster.Rank(1, []int64{1, 2}, "default", key)
		require.LessOrEqual(t, after, before)
	}
	require.Equal(t, 0, cluster.Rank(5, nil, "default", 1), "alone")
	require.Equal(t, cluster.Rank(5, []int64{5, 6}, "q", 1), cluster.Rank(5, []int64{6}, "q", 1), "not in the list")
}

func TestEstimateRank(t *testing.T) {
	t.Parallel()
	counts := make([]int, 4)
	for key := range uint64(4000) {
		counts[cluster.EstimateRank(17, 4, "default", key)]++
	}
	for rank, n := range counts {
		require.InDelta(t, 1000, n, 150, "rank %d", rank)
	}
	require.Zero(t, cluster.EstimateRank(17, 1, "default", 3))
	require.Zero(t, cluster.EstimateRank(17, 0, "default", 3))
}

func TestAnswerDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rank, count, slots int
		want               time.Duration
	}{
		{rank: 0, count: 1, slots: 10, want: 0},
		{rank: 1, count: 1, slots: 10, want: 3 * time.Millisecond},
		{rank: 2, count: 1, slots: 10, want: 6 * time.Millisecond},
		{rank: 2, count: 30, slots: 10, want: 0},
		{rank: 3, count: 30, slots: 10, want: 3 * time.Millisecond},
		{rank: 3, count: 31, slots: 10, want: 0},
		{rank: 3, count: 2, slots: 0, want: 6 * time.Millisecond},
		{rank: 9, count: 0, slots: 10, want: 0},
		{rank: 1 << 40, count: 1, slots: 10, want: 50 * time.Millisecond},
	} {
		require.Equal(t, c.want, cluster.AnswerDelay(c.rank, c.count, c.slots), "%+v", c)
	}
}
