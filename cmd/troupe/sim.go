package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/simulation"
)

func simCommand(w world) *cobra.Command {
	options := simulation.Defaults()
	options.Out = w.out
	c := &cobra.Command{
		Use:   "sim",
		Short: "Simulate clusters with faults, and check every promise",
		Long: `Runs whole clusters of pods on one database, in virtual time, while pods crash,
freeze and disagree about the time, calls are lost, late and ambiguous, and step
functions do what they should not; and checks after every transaction what the
engine promises. A seed says all that happens: the same seed is the same
history. docs/simulation.md explains it.

Classes of faults: none, ` + strings.Join(simulation.ClassNames(), ", ") + `.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if options.For > 0 && !c.Flags().Changed("seeds") {
				options.Seeds = 0
			}
			if err := options.Validate(); err != nil {
				return &usageError{err}
			}
			return simulation.Run(c.Context(), options)
		},
	}
	flags := c.Flags()
	flags.Uint64Var(&options.Seed, "seed", options.Seed, "the first seed")
	flags.IntVar(&options.Seeds, "seeds", options.Seeds, "how many seeds")
	flags.DurationVar(&options.For, "for", 0*time.Second, "as many seeds as fit into this time")
	flags.StringSliceVar(&options.Faults, "faults", nil, "classes of faults, separated by commas (default: all)")
	flags.IntVar(&options.Workers, "workers", options.Workers, "seeds that run at the same time")
	flags.BoolVar(&options.Trace, "trace", false, "print the history of every seed")
	flags.BoolVar(&options.Shrink, "shrink", false, "find out which faults of a failed seed matter")
	flags.StringVar(&options.Save, "save", "", "folder that failed seeds are written to, as replays")
	flags.StringVar(&options.Replay, "replay", "", "print the history of a replay, from its file")
	flags.BoolVar(&options.First, "first", false, "end with the first violation")
	flags.BoolVar(&options.Planted, "planted", false, "look for mistakes planted in a second binary, too (needs Go and this source)")
	flags.StringVar(&options.Plant, "plant", "", "switch a planted mistake on")
	flags.BoolVar(&options.JSON, "json", false, "print one line of JSON at the end")
	if err := flags.MarkHidden("plant"); err != nil {
		panic(err) // the flag above
	}
	return c
}
