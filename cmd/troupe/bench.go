package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
)

func benchCommand(w world) *cobra.Command {
	options := bench.Defaults()
	options.Out = w.out
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput, latency and cost on this machine",
		Long: `Measures the engine on a private PostgreSQL that it starts, with fsync on, or on
the server that TROUPE_DATABASE_URL names, where it makes and drops a database
of its own. docs/performance.md explains the figures.

Measurements: ` + strings.Join(bench.Names(), ", ") + `.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			options.Config, options.DatabaseURL = values.Config, values.DatabaseURL
			if err := options.Validate(); err != nil {
				return &usageError{err}
			}
			return bench.Run(c.Context(), options)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&options.Only, "only", nil, "measurements to make, separated by commas (default: all)")
	flags.IntVar(&options.Repeats, "runs", options.Repeats, "how often each is made; the median counts")
	flags.IntVar(&options.Tasks, "tasks", options.Tasks, "tasks of one run of a throughput measurement")
	flags.IntVar(&options.Slots, "slots", options.Slots, "slots of the pod, for throughput")
	flags.IntVar(&options.Callers, "callers", options.Callers, "goroutines that trigger, for throughput")
	flags.IntVar(&options.Samples, "samples", options.Samples, "samples of one run of a latency measurement")
	flags.StringVar(&options.Profile, "cpuprofile", "", "write a CPU profile of the pods to this file")
	flags.BoolVar(&options.JSON, "json", false, "print one line of JSON below the report")
	return c
}
