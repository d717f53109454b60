// Package simulation is the command sim: it runs the swarm of clusters of the
// engine's own simulation, shows how it goes, and says what it found.
package simulation

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/planted"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/internal/sim/swarm"
)

// Options say what to simulate and how to tell.
type Options struct {
	Seed    uint64        // the first
	Seeds   int           // how many; 0: as many as fit into For
	For     time.Duration // how long at most; 0: no limit
	Faults  []string      // classes; empty: all
	Workers int           // seeds at the same time
	Trace   bool          // print the history of every seed
	JSON    bool          // print one line of JSON at the end
	Shrink  bool          // find out which faults of a failed seed matter
	First   bool          // end with the first violation
	Save    string        // folder for the replays of failed seeds; "": none
	Replay  string        // file of a replay to run instead of seeds; "": none
	Planted bool          // look for planted mistakes, too
	Plant   string        // the one that is switched on, in a binary that has them
	Dir     string        // the module's source, for Planted
	Out     io.Writer

	classes []sim.Class
}

// workersMax bounds the seeds that run at the same time.
const workersMax = 1024

// Defaults returns options of a short run.
func Defaults() Options {
	return Options{Seed: 1, Seeds: 1000, Workers: runtime.GOMAXPROCS(0), Dir: "."}
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Seeds < 0, o.For < 0:
		return fmt.Errorf("--seeds is %d and --for is %v: use 0 or more", o.Seeds, o.For)
	case o.Seeds == 0 && o.For == 0 && !o.Planted:
		return fmt.Errorf("name --seeds, or --for")
	case o.Workers < 1 || o.Workers > workersMax:
		return fmt.Errorf("--workers is %d: use 1 to %d", o.Workers, workersMax)
	}
	if err := planted.Choose(o.Plant); err != nil {
		return fmt.Errorf("--plant %s: %w", o.Plant, err)
	}
	known := swarm.Classes()
	for _, name := range o.Faults {
		if !slices.Contains(known, sim.Class(name)) && name != "none" {
			return fmt.Errorf("--faults: no class is called %q: there are none, %s", name, strings.Join(ClassNames(), ", "))
		}
	}
	for _, class := range known {
		if len(o.Faults) == 0 || slices.Contains(o.Faults, string(class)) {
			o.classes = append(o.classes, class)
		}
	}
	if o.classes == nil {
		o.classes = []sim.Class{}
	}
	return nil
}

// ClassNames lists the classes of faults.
func ClassNames() []string {
	var names []string
	for _, class := range swarm.Classes() {
		names = append(names, string(class))
	}
	return names
}

// Result is the line of JSON.
type Result struct {
	Seeds            int   `json:"seeds"`
	Violations       int   `json:"violations"`
	SeedsPerMinute   int   `json:"seeds_per_minute"`
	Nondeterministic int   `json:"nondeterministic"`
	PlantedFound     int   `json:"planted_found"`
	PlantedTotal     int   `json:"planted_total"`
	SometimesUnmet   int   `json:"sometimes_unmet"`
	Faults           int   `json:"faults"`
	Messages         int   `json:"messages"`
	Tasks            int   `json:"tasks"`
	VirtualSeconds   int64 `json:"virtual_seconds"`
}
