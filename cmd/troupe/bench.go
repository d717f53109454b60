package main

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/load"
)

func benchCommand(w world) *cobra.Command {
	options := load.Defaults()
	options.Out, options.Environ = w.out, w.environ
	c := &cobra.Command{
		Use:   "bench",
		Short: "Put a load of your choice on the engine, and report what it did",
		Long: `Triggers runs and executes them, on pods that are processes of their own, and
reports throughput, latencies, failures and cost. It does so on the server that
TROUPE_DATABASE_URL names, in a database that it makes and drops, or on a
private PostgreSQL that it starts, with fsync on.

Without --rate the loop is closed: as soon as one of --concurrent runs has
ended, the next one is triggered. With --rate it is open: runs are triggered on
schedule however slow they get, and each latency begins where the schedule had
it. Ctrl-C stops the load, lets open runs end, and prints the report so far.

Shapes: ` + load.Shapes + `. docs/load-testing.md explains the report.`,
		Example: `  troupe bench                                       100 diamonds at a time, for 10 s
  troupe bench --rate 50 --duration 30s --pods 4     latencies of a steady load
  troupe bench --shape chain-10 --runs 5000 --step-latency 10ms-30ms
  troupe bench --shape map-100000 --runs 1           one run that executes a function for each of 100,000 items
  troupe bench --shape machine-20 --runs 2000 --concurrent 200 --failure-rate 0.1 --step-latency 10ms
  troupe bench --failure-rate 0.05 --fatal-rate 0.01 --json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			options.Config, options.DatabaseURL = values.Config, values.DatabaseURL
			if values.Config.Slots > 0 && !c.Flags().Changed("slots") {
				options.Slots = values.Config.Slots
			}
			for _, name := range []string{"runs", "concurrent", "duration", "rate", "at-once"} {
				if c.Flags().Changed(name) {
					options.Asked = append(options.Asked, "--"+name)
				}
			}
			if err := errors.Join(values.Validate(), options.Validate()); err != nil {
				return &usageError{err}
			}
			options.Complete()
			if options.Program, err = os.Executable(); err != nil {
				return err
			}
			return load.Run(c.Context(), options)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&options.Shape, "shape", options.Shape, "what a run is: "+load.Shapes)
	flags.IntVar(&options.AtOnce, "at-once", 0, "elements of each map that are open at once (default 100, with shapes that are maps)")
	flags.Int64Var(&options.Runs, "runs", 0, "how many runs to trigger (default: as many as fit into --duration)")
	flags.DurationVar(&options.Duration, "duration", 0, "how long to trigger runs (default 10s, unless --runs is given)")
	flags.IntVar(&options.Concurrent, "concurrent", 0, "runs open at once, over all pods (default 100, unless --rate is given)")
	flags.Float64Var(&options.Rate, "rate", 0, "runs to trigger a second, over all pods, however many are open")
	flags.IntVar(&options.Pods, "pods", options.Pods, "pods, each a process of its own on this machine")
	flags.IntVar(&options.Slots, "slots", options.Slots, "steps that each pod executes at once")
	flags.IntVar(&options.Tenants, "tenants", options.Tenants, "tenants that take turns")
	flags.IntVar(&options.Payload, "payload", 0, "bytes of each run's input and of each step's output")
	flags.Var(&options.StepLatency, "step-latency", "how long a step takes: 10ms, or 10ms-30ms for anything between")
	flags.Float64Var(&options.FailureRate, "failure-rate", 0, "share of steps whose first attempt fails, and is repeated after 100ms")
	flags.Float64Var(&options.FatalRate, "fatal-rate", 0, "share of runs whose last step fails for good")
	flags.StringVar(&options.Profiles, "cpuprofile", "", "write a CPU profile of each pod into this folder")
	flags.BoolVar(&options.JSON, "json", false, "print one line of JSON below the report")
	c.AddCommand(figuresCommand(w))
	return c
}

func figuresCommand(w world) *cobra.Command {
	options := bench.Defaults()
	options.Out = w.out
	c := &cobra.Command{
		Use:   "figures",
		Short: "Measure the figures of docs/performance.md on this machine",
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
			if err := errors.Join(values.Validate(), options.Validate()); err != nil {
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

// benchPodCommand is what a load starts for each pod; see the package load.
func benchPodCommand(w world) *cobra.Command {
	return &cobra.Command{
		Use:    load.PodCommand,
		Hidden: true,
		Args:   noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // Ctrl-C is for the parent, which stops its pods
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			pod := &load.Pod{DatabaseURL: values.DatabaseURL, Config: values.Config, In: w.in, Out: w.out}
			pod.Config.Logger = slog.New(slog.NewJSONHandler(w.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
			return pod.Serve(c.Context())
		},
	}
}
