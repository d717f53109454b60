package lifecycle

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFairIDsOfAQueue(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 2, FairID(1, LaneContinuing, 0))
	require.EqualValues(t, 3, FairID(1, LaneNew, 0))
	require.EqualValues(t, 1<<21, FairID(0, LaneContinuing, 1))
	require.Less(t, FairID(GroupMax, LaneNew, 7), FairID(0, LaneContinuing, 8), "blocks do not overlap")

	random := rand.New(rand.NewPCG(1, 1))
	type place struct {
		group int32
		lane  Lane
		block int64
	}
	for range 10_000 {
		next := func() place {
			return place{random.Int32N(GroupMax + 1), Lane(random.IntN(2)), random.Int64N(1 << 40)}
		}
		a, b := next(), next()
		group, lane, block := SplitFairID(FairID(a.group, a.lane, a.block))
		require.Equal(t, a, place{group, lane, block})
		order := slices.Compare(
			[]int64{a.block, int64(a.group), int64(a.lane)}, []int64{b.block, int64(b.group), int64(b.lane)})
		require.Equal(t, order < 0, FairID(a.group, a.lane, a.block) < FairID(b.group, b.lane, b.block),
			"block first, then group, then lane")
	}
}

func TestNextBlock(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 1, NextBlock(0, 0))
	require.EqualValues(t, 6, NextBlock(5, 3), "a tenant with work waiting goes behind its own")
	require.EqualValues(t, 101, NextBlock(5, 100), "a tenant that comes late starts where the queue is served")
}

// TestTenantsTakeTurns is I9 on the pure rule: in the order of their fair ids,
// between two dispatches of a tenant in one lane lie at most two of each other.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	var ids []int64
	for group := range int32(20) {
		for _, lane := range []Lane{LaneContinuing, LaneNew} {
			own := int64(0)
			for range 50 {
				own = NextBlock(own, 0)
				ids = append(ids, FairID(group+1, lane, own))
			}
		}
	}
	slices.Sort(ids)
	between := map[[2]int32]int{} // dispatches of the second since the last of the first
	for _, id := range ids {
		group, lane, _ := SplitFairID(id)
		for other := range int32(20) {
			between[[2]int32{other + 1, group}]++
		}
		for other := range int32(20) {
			pair := [2]int32{group, other + 1}
			if other+1 != group && lane == LaneNew {
				require.LessOrEqual(t, between[pair], 2)
			}
			if lane == LaneNew {
				between[pair] = 0
			}
		}
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, room int
		waiting     bool
		want        int
		name        string
	}{
		{2, 3, false, 2, "room for all, no other tenant waits"},
		{3, 2, false, 2, "room for two of three"},
		{1, 1, true, 0, "another tenant waits"},
		{0, 1, false, 0, "nothing to grant"},
		{1, -1, false, 0, "less than no room"},
	} {
		require.Equal(t, c.want, Take(c.first, c.room, c.waiting), c.name)
	}
}

func TestMayInline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		granted, room int
		others, want  bool
		name          string
	}{
		{0, 1, false, true, "no other tenant waits"},
		{0, 1, true, false, "another tenant waits"},
		{1, 1, false, false, "as many as there is room for, no more"},
		{1, 2, false, true, "one less than there is room for"},
		{0, 0, false, false, "no room"},
	} {
		require.Equal(t, c.want, MayInline(c.granted, c.room, c.others), c.name)
	}
}
