// Command troupe is the engine's companion: it shows it at work and looks
// after its tables. Each command has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2   // the call was wrong: nothing was tried
	exitInterrupted = 130 // as shells have it
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
	var wrong *usageError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(w.err, "troupe: interrupted")
		return exitInterrupted
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintln(w.err, "troupe: "+oneLine(err.Error()))
		return exitUsage
	}
	_, _ = fmt.Fprintln(w.err, "troupe: "+oneLine(err.Error()))
	return exitFailed
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
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(benchCommand(w), benchPodCommand(w), deadLettersCommand(w), demoCommand(w), demoPodCommand(w), doctorCommand(w), explainCommand(w), migrateCommand(w), ordersCommand(w), simCommand(w), versionCommand())
	strictHelp(root)
	return root
}
