package simtest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-dev/troupe"
)

// Options say what is simulated. The zero value is a good start.
type Options struct {
	Seeds  int           // how many; 0: 200, and 50 with -short. TROUPE_SIM_SEEDS overrides it
	Pods   int           // of the cluster; 0: 3
	Faults Faults        // zero: Swarm
	Config troupe.Config // of every pod. MaxLost is 1000 unless it says otherwise: pods crash a lot here
	// Patience is how much virtual time may pass without any progress, once the
	// faults are over, before a run counts as stuck; 0: 15 minutes. While a step
	// is executed it is eight times as much.
	Patience time.Duration
	// Most bounds the simulations of a CrashEverywhere; 0: 2000.
	Most int
}

func (o Options) withDefaults() Options {
	if o.Seeds <= 0 {
		o.Seeds = 200
		if testing.Short() {
			o.Seeds = 50
		}
	}
	if o.Pods <= 0 {
		o.Pods = 3
	}
	if o.Patience <= 0 {
		o.Patience = 15 * time.Minute
	}
	if o.Most <= 0 {
		o.Most = 2000
	}
	if o.Config.MaxLost == 0 {
		o.Config.MaxLost = 1000
	}
	return o
}

// Variables of the environment.
const (
	envSeed  = "TROUPE_SIM_SEED"  // run this seed only; a report says which
	envSeeds = "TROUPE_SIM_SEEDS" // run so many
	envTrace = "TROUPE_SIM_TRACE" // print the whole history of TROUPE_SIM_SEED
)

// number reads a variable; false: it is not set.
func number(t testing.TB, name string) (uint64, bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: pass a number", name, text)
	}
	return n, true
}
