package swarm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/sim"
)

// Of sixty faults two matter, one of a class of its own.
func TestShrinkLeavesTheFaultsThatMatter(t *testing.T) {
	t.Parallel()
	failed := &Report{Violation: &sim.Violation{Promise: "I3"}}
	for i := range 60 {
		class := []sim.Class{sim.PodCrash, sim.WakeLost, sim.StoreAnswer}[i%3]
		failed.Faults = append(failed.Faults, sim.Fault{Class: class, Place: "pod-a", N: i})
	}
	matter := []string{failed.Faults[10].Name(), failed.Faults[44].Name()}
	tries := 0
	s := &shrinker{left: 200, best: Replay{Seed: 7, Promise: "I3"}, run: func(r Replay) *Report {
		tries++
		for _, name := range matter {
			if r.Only != nil && !slices.Contains(r.Only, name) {
				return &Report{Violation: &sim.Violation{Promise: "I1"}} // another promise does not count
			}
		}
		return failed
	}}
	replay := s.shrink(failed)
	require.ElementsMatch(t, matter, replay.Only)
	require.True(t, replay.FIFO)
	require.LessOrEqual(t, tries, 60)
	require.Equal(t, fmt.Sprintf("seed 7 breaks I3 with %s, %s and the plainest order of messages", replay.Only[0], replay.Only[1]), replay.String())
}

func TestShrinkGivesUpInTime(t *testing.T) {
	t.Parallel()
	failed := &Report{Violation: &sim.Violation{Promise: "I3"}, Faults: []sim.Fault{{Class: sim.PodCrash, Place: "a"}, {Class: sim.PodStop, Place: "a"}}}
	s := &shrinker{left: 2, best: Replay{Promise: "I3"}, run: func(Replay) *Report { return failed }}
	require.Len(t, s.shrink(failed).Only, 2)
}

func TestABatchSaysWhatItDidNotSee(t *testing.T) {
	t.Parallel()
	b := Plan{From: 1, Count: 3, Options: Options{Classes: []sim.Class{sim.PodCrash}}}.Run(t.Context())
	require.Contains(t, b.Unmet(), string(SawTwoLeaders))
	for sight, seeds := range b.Saw {
		require.True(t, seeds == 0 || !slices.Contains(b.Unmet(), string(sight)), sight)
	}
	require.Equal(t, 3, b.Seeds)
}

func TestHistoriesPartAtTheirFirstDifference(t *testing.T) {
	t.Parallel()
	lab := NewLab()
	first := lab.Run(Options{Seed: 5})
	require.Nil(t, lab.again(Options{Seed: 5}, first))
	first.Hash++
	require.Equal(t, "it did not happen again", lab.again(Options{Seed: 5}, first).First)
}
