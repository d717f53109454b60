package simtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/internal/sim"
)

// setting is what one simulation is like. It is what a replay file holds.
type setting struct {
	Seed     uint64   `json:"seed"`
	Only     []string `json:"only"`               // names of the faults that may happen; null: all
	Plain    bool     `json:"plain,omitempty"`    // messages are delivered in the order of their sending
	CrashAt  int      `json:"crash_at,omitempty"` // a pod crashes at this point; 0: none
	CrashPod int      `json:"crash_pod,omitempty"`
	Twice    int      `json:"twice,omitempty"` // the pod of the n-th step that succeeds crashes before its completion is recorded; 0: none

	trace func(sim.Line)
}

// calm is a simulation in which nothing goes wrong.
func calm() setting { return setting{Seed: 1, Only: []string{}, Plain: true} }

// faults is how many faults may happen.
func (s setting) faults() int {
	r := rand.New(rand.NewPCG(s.Seed, 5))
	return 1 << (2 + r.IntN(6))
}

// name is how people repeat a setting, but for the faults that were left out.
func (s setting) name() string {
	switch {
	case s.Twice > 0:
		return fmt.Sprintf("twice-%d", s.Twice)
	case s.CrashAt > 0:
		return fmt.Sprintf("crash-%d-%d", s.CrashAt, s.CrashPod)
	case s.Plain && s.Only != nil && len(s.Only) == 0 && s.Seed == 1:
		return "calm"
	}
	return fmt.Sprint(s.Seed)
}

// named returns the setting that the environment names; false: none.
func named(t *testing.T) (setting, bool) {
	t.Helper()
	text, set := os.Getenv(envSeed), calm()
	for format, to := range map[string][]any{"twice-%d": {&set.Twice}, "crash-%d-%d": {&set.CrashAt, &set.CrashPod}} {
		if n, err := fmt.Sscanf(text, format, to...); n == len(to) && err == nil {
			return set, true
		}
	}
	if text == "calm" {
		return set, true
	}
	seed, ok := number(t, envSeed)
	return setting{Seed: seed}, ok
}
