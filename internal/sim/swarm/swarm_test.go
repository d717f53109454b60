package swarm_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/internal/sim/swarm"
)

func TestScratch(t *testing.T) {
	lab := swarm.NewLab()
	n := 20
	fmt.Sscan(os.Getenv("N"), &n)
	classes := []sim.Class{}
	if os.Getenv("FAULTS") != "" {
		classes = swarm.Classes()
	}
	var trace func(sim.Line)
	from := 1
	fmt.Sscan(os.Getenv("SEED"), &from)
	if os.Getenv("TRACE") != "" {
		trace = func(l sim.Line) { fmt.Println(l) }
	}
	bad, steps := 0, 0
	for seed := from; seed < from+n; seed++ {
		r := lab.Run(swarm.Options{Seed: uint64(seed), Classes: classes, Trace: trace})
		steps += r.Steps
		if r.Violation != nil {
			bad++
			if bad < 12 {
				t.Logf("seed %d: %v; %s steps %d elapsed %v faults %d tasks %d", seed, r.Violation, r.Setting, r.Steps, r.Elapsed, len(r.Faults), r.Tasks)
			}
		}
		if os.Getenv("V") != "" {
			t.Log(seed, r.Steps, r.Elapsed, r.Tasks, r.Hash, r.Saw)
		}
	}
	t.Log("steps per seed", steps/n, "bad", bad)
	require.Zero(t, bad)
}
