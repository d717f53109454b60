// Command troupe is the engine's companion: it shows it at work and looks
// after its tables. Each command has a file of its own.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	relaxCollector(os.Environ())
	os.Exit(run(os.Args[1:], world{environ: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// gcPercent lets the heap grow to three times what lives between two collections: less CPU
// for some memory, by the figures of docs/performance.md.
const gcPercent = 200

// relaxCollector sets the garbage collector, unless the environment does. It is for processes
// of this command: a library leaves that to its embedder.
func relaxCollector(environ []string) {
	if !slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		debug.SetGCPercent(gcPercent)
	}
}

// world is what a command gets from outside.
type world struct {
	environ []string
	in      io.Reader
	out     io.Writer
	err     io.Writer

	completing time.Duration // how long a completion may take; 0: completionMax
}

// run executes a command line and returns the exit code. The first signal ends
// the context, so that everything stops in good order; the second one ends the
// process at once, as without a handler.
func run(args []string, w world) int {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := rootCommand(w)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(w.err, "troupe: interrupted")
		return exitInterrupted
	}
	_, _ = fmt.Fprintln(w.err, "troupe: "+oneLine(err.Error()))
	return exitOf(err)
}

func rootCommand(w world) *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Durable workflows in Go, on PostgreSQL and nothing else",
		Version:       buildLine(),
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "the same as the command version")
	root.AddCommand(
		benchCommand(w), benchPodCommand(w), deadLettersCommand(w), demoCommand(w), demoPodCommand(w), doctorCommand(w), explainCommand(w),
		grantCommand(w), migrateCommand(w), ordersCommand(w), podsCommand(w), queuesCommand(w), runsCommand(w), simCommand(w), versionCommand(), workflowsCommand(w),
	)
	strictHelp(root)
	strictCompletion(root)
	return root
}
