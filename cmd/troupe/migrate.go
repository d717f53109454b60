package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/migrations"
)

// connectTimeout bounds the wait for a server that does not answer, unless the
// address says otherwise.
const connectTimeout = 10 * time.Second

func migrateCommand(w world) *cobra.Command {
	var flags target
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables, or show how they stand",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags.add(c)
	c.AddCommand(
		migration(w, &flags, "up", "Bring the schema to this program's version; twice is safe", migrations.Migrate),
		migration(w, &flags, "status", "Show how the schema stands; changes nothing", migrations.Status),
	)
	return c
}

type migrate func(ctx context.Context, pool *pgxpool.Pool, schema string) (migrations.Report, error)

func migration(w world, flags *target, name, short string, do migrate) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := flags.complete(w.environ)
			if err != nil {
				return &usageError{err}
			}
			pool, err := chosen.open(c.Context())
			if err != nil {
				return &usageError{err}
			}
			defer pool.Close()
			report, err := do(c.Context(), pool, chosen.schema)
			if err != nil {
				return err
			}
			return printReport(w.out, report)
		},
	}
}

// target is the schema that a command works on.
type target struct {
	url, schema string
	connections int32         // of the pool, at most; 0: as the address or pgx says
	local       bool          // it connects to nothing, and needs no address
	config      troupe.Config // what the environment says, once it is complete
}

// add gives a command, and those below it, the flags of a target.
func (t *target) add(c *cobra.Command) {
	c.PersistentFlags().StringVar(&t.url, "database-url", "", "the database (default: "+environment.DatabaseURL+")")
	c.PersistentFlags().StringVar(&t.schema, "schema", "", "schema of the tables (default: TROUPE_SCHEMA, else "+migrations.DefaultSchema+")")
}

// complete fills in from the environment what the flags left open, and checks
// all that can be checked without a server. Both is an error unless they agree,
// so that there is no precedence to remember.
func (t target) complete(environ []string) (target, error) {
	values, err := environment.Read(environ)
	if err != nil {
		return t, err
	}
	for _, source := range []struct {
		flag, variable string
		given          *string
		found          string
	}{
		{"--database-url", environment.DatabaseURL, &t.url, values.DatabaseURL},
		{"--schema", "TROUPE_SCHEMA", &t.schema, values.Config.Schema},
	} {
		if *source.given != "" && source.found != "" && *source.given != source.found {
			return t, fmt.Errorf("%s and %s are both set and differ: keep one", source.flag, source.variable)
		}
		if *source.given == "" {
			*source.given = source.found
		}
	}
	if t.url == "" && !t.local {
		return t, fmt.Errorf("no database is named: set %s or --database-url", environment.DatabaseURL)
	}
	if t.schema == "" {
		t.schema = migrations.DefaultSchema
	}
	if err := environment.CheckAddress(t.url); err != nil && t.url != "" {
		return t, fmt.Errorf("--database-url: %w", err) // the variable was checked as it was read
	}
	if wrong := (&troupe.ConfigError{}); values.Config.Schema == "" && errors.As(troupe.Config{Schema: t.schema}.Validate(), &wrong) {
		return t, fmt.Errorf("--schema %s: %s", wrong.Text, wrong.Remedy)
	}
	if err := values.Validate(); err != nil {
		return t, err
	}
	t.config = values.Config
	t.config.Schema = t.schema
	return t, nil
}

// open checks the address; it connects to nothing yet.
func (t target) open(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(t.url)
	if err != nil {
		return nil, err // of a setting of the pool
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout / time.Duration(1+len(config.ConnConfig.Fallbacks)) // the right host may be the last
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // whatever the role is set to
	if t.connections > 0 {
		config.MaxConns = t.connections
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func printReport(out io.Writer, r migrations.Report) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		errs = append(errs, err)
	}
	for _, name := range r.Applied {
		line("applied  %s", name)
	}
	for _, name := range r.Pending {
		line("pending  %s", name)
	}
	if len(r.Pending) > 0 {
		line("schema %s is at version %d of %d: run troupe migrate up", r.Schema, r.Version, r.Latest)
		return errors.Join(errs...) // what is to come is not missing
	}
	line("schema %s is at version %d of %d", r.Schema, r.Version, r.Latest)
	if r.Publication != "" {
		line("waking by replication is off: %s", oneLine(r.Publication))
	}
	return errors.Join(errs...)
}
