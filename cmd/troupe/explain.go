package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

func explainCommand(w world) *cobra.Command {
	var flags target
	var tenant string
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain RUN",
		Short: "Say why a run does not move, and what to do about it",
		Long: `Prints one line for each step of a run that has not ended, or one for the run:
what it waits for, and a remedy unless it passes by itself. It changes nothing
and waits for no lock. docs/operations.md lists the causes.

What the tables do not hold comes from the environment if it is there:
TROUPE_TENANT_LIMIT, and TROUPE_PULSE with TROUPE_LEASE.`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			run, err := troupe.ParseRunID(args[0])
			if err != nil {
				return &usageError{fmt.Errorf("%q is no id of a run: %w", args[0], err)}
			}
			chosen, err := flags.complete(w.environ)
			if err != nil {
				return &usageError{err}
			}
			values, err := environment.Read(w.environ)
			if err != nil {
				return &usageError{err}
			}
			pool, err := chosen.open(c.Context())
			if err != nil {
				return &usageError{err}
			}
			defer pool.Close()
			inspector, err := postgres.NewInspector(pool, chosen.schema)
			if err != nil {
				return err
			}
			situation, err := inspector.Situation(c.Context(), tenant, run)
			if errors.Is(err, troupe.ErrRunNotFound) {
				return fmt.Errorf("no run %v in schema %s of that database: it may be another tenant's, or removed after its retention", run, chosen.schema)
			}
			if err != nil {
				return err
			}
			situation.TenantLimit = values.Config.TenantLimit
			if values.Config.Pulse > 0 && values.Config.Lease > 0 {
				situation.Pulse, situation.Lease = values.Config.Pulse, values.Config.Lease
			}
			return printReasons(w.out, explain.Explain(situation), asJSON)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "the run's tenant (default: any)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, an object for each line")
	return c
}

// oneRun accepts the id of a run.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes the id of one run, got %d arguments", c.CommandPath(), len(args))}
	}
	return nil
}

func printReasons(out io.Writer, reasons []explain.Reason, asJSON bool) error {
	if asJSON {
		return printDocument(out, reasons)
	}
	for _, r := range reasons {
		if _, err := fmt.Fprintln(out, visible(r.String())); err != nil {
			return err
		}
	}
	return nil
}

// printDocument prints one value, with nothing in it that a terminal would obey.
func printDocument(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(text) {
		if r != '\n' && obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	_, err = fmt.Fprintln(out, b.String())
	return err
}

// visible replaces what a terminal would obey: names, errors and statements
// that are shown come from anybody.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// obeyed reports whether a rune is a control character, or changes the direction
// of what follows.
func obeyed(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0x200e || r == 0x200f || r == 0x2028 || r == 0x2029
}
