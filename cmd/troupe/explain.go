package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

func explainCommand(w world) *cobra.Command {
	f := &readFlags{}
	c := &cobra.Command{
		Use:   "explain RUN",
		Short: "Say why a run does not move, or how it ended, and what to do about it",
		Long: `Prints one line for each step of a run that has not ended, or one for the run:
what it waits for, and a remedy unless it passes by itself. Of a run that has ended
it says which steps failed and why, or what canceled it. It changes nothing
and waits for no lock. docs/operations.md lists the causes.

What the tables do not hold comes from the environment if it is there:
TROUPE_TENANT_LIMIT, and TROUPE_PULSE with TROUPE_LEASE.`,
		Args:              oneRun,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: func(c *cobra.Command, args []string) error {
			pool, err := f.connect(c, w)
			if err != nil {
				return err
			}
			defer pool.Close()
			situation, err := look(c.Context(), pool, f.schema, f.tenant, runArg(args))
			if err != nil {
				return f.worded(err, args)
			}
			situation.TenantLimit = f.config.TenantLimit
			situation.TenantLimitUnknown = !slices.ContainsFunc(w.environ, func(v string) bool { return strings.HasPrefix(v, "TROUPE_TENANT_LIMIT=") })
			if f.config.Pulse > 0 && f.config.Lease > 0 {
				situation.Pulse, situation.Lease = f.config.Pulse, f.config.Lease
			}
			if parent := situation.Parent; !parent.IsZero() && !f.json {
				if _, err := fmt.Fprintf(w.out, "it is a child run of %v (troupe explain %v)\n", parent, parent); err != nil {
					return err
				}
			}
			return printReasons(w.out, explain.Explain(situation), f.json)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.json, "json", false, "print a JSON array, an object for each line")
	return f.ofTenant(c, w)
}

// schemaPatience bounds the read of the version of the tables. A lock on them is what
// explain is asked about, so it does not wait for one.
const schemaPatience = 3 * time.Second

// look reads the situation of a run, unless the tables are not what this program
// knows.
func look(ctx context.Context, pool *pgxpool.Pool, schema, tenant string, run troupe.RunID) (explain.Situation, error) {
	var none explain.Situation
	if err := readable(ctx, pool, schema); err != nil {
		return none, mended(ctx, pool, err, schema, "select")
	}
	inspector, err := postgres.NewInspector(pool, schema)
	if err != nil {
		return none, err
	}
	situation, err := inspector.Situation(ctx, tenant, run)
	return situation, mended(ctx, pool, err, schema, "select")
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

func printReasons(out io.Writer, reasons []explain.Reason, asJSON bool) error {
	if asJSON {
		return output.Document(out, reasons)
	}
	for _, r := range reasons {
		if _, err := fmt.Fprintln(out, output.Visible(r.String())); err != nil {
			return err
		}
	}
	return nil
}
