package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/demo"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
)

func demoCommand(w world) *cobra.Command {
	options := demo.Options{Out: w.out, Environ: w.environ}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Count Go's own source tree on three pods, and kill one half-way",
		Long: `Counts a tree of Go source, one durable run per package, on three pods that
are processes of their own; kills one of them with SIGKILL half-way; and checks
the result against a straight loop over the same files.

The PostgreSQL it needs is the one that TROUPE_DATABASE_URL names, else one that
it starts from programs found on this machine or downloaded; that one ends with
the demo. With --keep the runs can be looked at afterwards. Other TROUPE_ variables (docs/configuration.md) tune the pods.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			if err := options.Validate(); err != nil {
				return &usageError{err}
			}
			options.Config, options.DatabaseURL = values.Config, values.DatabaseURL
			if options.Root == "" {
				if options.Root, err = goSource(c.Context()); err != nil {
					return err
				}
			}
			if options.Program, err = demo.Executable(); err != nil {
				return err
			}
			return demo.Run(c.Context(), options)
		},
	}
	c.Flags().StringVar(&options.Root, "dir", "", "tree of Go source to count (default: that of the installed Go)")
	c.Flags().IntVar(&options.Limit, "packages", 0, "count so many packages, spread over the tree; 0: all")
	c.Flags().BoolVar(&options.JSON, "json", false, "print one line of JSON below the report")
	c.Flags().BoolVar(&options.Keep, "keep", false, "leave the database there, for the commands that the demo prints: on a server that it started until Ctrl-C")
	return c
}

// goSource finds the source tree of the installed Go.
func goSource(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "" {
		root = runtime.GOROOT() //nolint:staticcheck // without a go command, where the binary was built is the next guess
	}
	source := filepath.Join(root, "src")
	if _, err := os.Stat(source); root == "" || err != nil {
		return "", errors.New("no Go source tree found: install Go, or name a tree with --dir")
	}
	return source, nil
}

// demoPodCommand is what the demo starts three times; see the package demo.
func demoPodCommand(w world) *cobra.Command {
	pod := demo.Pod{In: w.in, Out: w.out}
	c := &cobra.Command{
		Use:    demo.PodCommand,
		Hidden: true,
		Args:   noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // Ctrl-C is for the parent, which stops its pods
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			pod.DatabaseURL, pod.Config = values.DatabaseURL, values.Config
			pod.Config.Logger = slog.New(slog.NewJSONHandler(w.err, nil))
			return pod.Serve(c.Context())
		},
	}
	c.Flags().StringVar(&pod.Root, "root", "", "source tree")
	c.Flags().StringVar(&pod.Ledger, "ledger", "", "file of effects")
	return c
}
