package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe"
)

// Options say what is measured and how.
type Options struct {
	Out         io.Writer
	JSON        bool   // end with one line of JSON
	DatabaseURL string // of a server to use; "": start a private one
	Config      troupe.Config

	Only    []string // names of measurements; none: all
	Repeats int      // of each measurement
	Tasks   int      // of one repetition of a throughput measurement
	Slots   int      // of the pod, for throughput
	Callers int      // goroutines that trigger, for throughput
	Samples int      // of one repetition of a latency measurement
	Profile string   // file for a CPU profile of the whole; "": none
}

// Defaults returns the options of a call without flags.
func Defaults() Options {
	return Options{Repeats: 3, Tasks: 100_000, Slots: 1000, Callers: 256, Samples: 500}
}

// Names lists the measurements in the order in which they are made.
func Names() []string {
	all := measurements()
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	return names
}

// Validate returns everything that is wrong, joined.
func (o Options) Validate() error {
	var problems []error
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"--runs", o.Repeats, 1000},
		{"--tasks", o.Tasks, 100_000_000},
		{"--slots", o.Slots, 10_000},
		{"--callers", o.Callers, 10_000},
		{"--samples", o.Samples, 1_000_000},
	} {
		if f.value < 1 || f.value > f.most {
			problems = append(problems, fmt.Errorf("%s is %d: use 1 to %d", f.name, f.value, f.most))
		}
	}
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			problems = append(problems, fmt.Errorf("no measurement is called %q: there are %s", name, strings.Join(Names(), ", ")))
		}
	}
	return errors.Join(problems...)
}

func (o Options) wants(name string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, name)
}
