package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/migrations"
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
			pool, err := chosen.open(c.Context())
			if err != nil {
				return &usageError{err}
			}
			defer pool.Close()
			situation, err := look(c.Context(), pool, chosen.schema, tenant, run)
			if err != nil {
				return err
			}
			situation.TenantLimit = chosen.config.TenantLimit
			situation.TenantLimitUnknown = !slices.ContainsFunc(w.environ, func(v string) bool { return strings.HasPrefix(v, "TROUPE_TENANT_LIMIT=") })
			if chosen.config.Pulse > 0 && chosen.config.Lease > 0 {
				situation.Pulse, situation.Lease = chosen.config.Pulse, chosen.config.Lease
			}
			return printReasons(w.out, explain.Explain(situation), asJSON)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "the run's tenant (default: any)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, an object for each line")
	return c
}

// schemaPatience bounds the read of the version of the tables. A lock on them is what
// explain is asked about, so it does not wait for one.
const schemaPatience = 3 * time.Second

// look reads the situation of a run, unless the tables are not what this program
// knows.
func look(ctx context.Context, pool *pgxpool.Pool, schema, tenant string, run troupe.RunID) (explain.Situation, error) {
	var none explain.Situation
	if err := readable(ctx, pool, schema); err != nil {
		return none, err
	}
	inspector, err := postgres.NewInspector(pool, schema)
	if err != nil {
		return none, err
	}
	situation, err := inspector.Situation(ctx, tenant, run)
	if errors.Is(err, troupe.ErrRunNotFound) {
		return none, fmt.Errorf("no run %v in schema %s of that database: it may be another tenant's, or removed after its retention", run, schema)
	}
	return situation, granted(err, schema, "select")
}

// readable says why the tables cannot be read, with the remedy, as doctor and migrate do.
// Unlike an engine, a reader can use a standby.
func readable(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	brief, cancel := context.WithTimeout(ctx, schemaPatience)
	defer cancel()
	report, err := migrations.Status(brief, pool, schema)
	switch {
	case brief.Err() != nil && ctx.Err() == nil:
		return nil // the locks will tell
	case err != nil:
		return err
	case report.Version < report.Latest:
		return fmt.Errorf("%w: schema %s is at version %d, this program needs %d: run troupe migrate up, or name another with --schema",
			migrations.ErrBehind, schema, report.Version, report.Latest)
	}
	return nil
}

// oneRun accepts the id of a run, and a tenant if one is named.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes the id of one run, got %d arguments", c.CommandPath(), len(args))}
	}
	if tenant := c.Flags().Lookup("tenant"); tenant.Changed && tenant.Value.String() == "" {
		return &usageError{errors.New("--tenant is empty: say which, or leave it out for any")} // an unset variable of a script
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
