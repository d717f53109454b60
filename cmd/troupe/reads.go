package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// readFlags are what the commands that read have in common: where they read, of which
// tenant, and how they print.
type readFlags struct {
	target

	tenant string
	json   bool
	lines  bool
	every  time.Duration // between two prints; 0: one is enough
}

// Bounds of --watch.
const (
	watchUsual = 2 * time.Second
	watchMin   = time.Second // a screen is no load for the database then
	watchMax   = time.Hour
)

// ofTenant adds the flag that names a tenant.
func (f *readFlags) ofTenant(c *cobra.Command, w world) *cobra.Command {
	c.Flags().StringVar(&f.tenant, "tenant", "", "of this tenant only (default: any)")
	completes(c, "tenant", f.completer(w, tenantNames))
	return c
}

// inJSON adds the flag for one object.
func (f *readFlags) inJSON(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object, on one line")
	return c
}

// inLines adds the flag for an object on each line.
func (f *readFlags) inLines(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&f.lines, "jsonl", false, "print a JSON object on each line")
	return c
}

// watched adds the flag for a screen that is drawn again and again.
func (f *readFlags) watched(c *cobra.Command) *cobra.Command {
	c.Flags().DurationVar(&f.every, "watch", 0, "print again every so often, in place on a terminal, until Ctrl-C")
	c.Flags().Lookup("watch").NoOptDefVal = watchUsual.String()
	return c
}

// check says what is wrong with the flags, before anything is tried.
func (f *readFlags) check(c *cobra.Command) error {
	for _, name := range []string{"tenant", "database-url", "schema"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		switch text := flag.Value.String(); {
		case text == "":
			return fmt.Errorf("--%s is empty: say which, or leave it out", name) // an unset variable of a script
		case !utf8.ValidString(text):
			return fmt.Errorf("--%s is %q, which is not valid UTF-8: write it in UTF-8", name, text)
		}
	}
	watch := c.Flags().Lookup("watch")
	switch {
	case f.json && f.lines:
		return errors.New("--json and --jsonl are both given: keep one")
	case watch != nil && watch.Changed && (f.every < watchMin || f.every > watchMax):
		return fmt.Errorf("--watch is %v: use %v to %v, as in --watch=5s", f.every, watchMin, watchMax)
	}
	return nil
}

// connect completes the target and opens a pool on it.
func (f *readFlags) connect(c *cobra.Command, w world) (*pgxpool.Pool, error) {
	if err := f.check(c); err != nil {
		return nil, &usageError{err}
	}
	chosen, err := f.target.complete(w.environ)
	if err != nil {
		return nil, &usageError{err}
	}
	f.target = chosen
	pool, err := f.open(c.Context())
	if err != nil {
		return nil, &usageError{err}
	}
	return pool, nil
}

// reading is what a command does with a reader.
type reading func(ctx context.Context, reader *troupe.Reader, args []string) error

// read connects, and reads once nothing is wrong with the call.
func (f *readFlags) read(w world, do reading) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		pool, err := f.connect(c, w)
		if err != nil {
			return err
		}
		defer pool.Close()
		reader, err := troupe.OpenReader(c.Context(), pool, f.schema)
		if err != nil {
			return mended(c.Context(), pool, err, f.schema, "select")
		}
		defer func() { _ = reader.Close() }() // it was only read
		return f.worded(mended(c.Context(), pool, do(c.Context(), reader, args), f.schema, "select"), args)
	}
}

// print is read for what is printed once, or again and again with --watch.
func (f *readFlags) print(w world, draw func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error) func(*cobra.Command, []string) error {
	return f.read(w, func(ctx context.Context, reader *troupe.Reader, args []string) error {
		if f.every == 0 {
			return draw(ctx, w.out, reader, args)
		}
		return output.Watch(ctx, w.out, f.every, func(out io.Writer) error { return draw(ctx, out, reader, args) })
	})
}

// worded says of a run that is not there where it was looked for.
func (f *readFlags) worded(err error, args []string) error {
	if !errors.Is(err, troupe.ErrRunNotFound) || len(args) != 1 {
		return err
	}
	return noRun(args[0], f.schema, f.tenant)
}

// noRun is the error for a run that was not found.
func noRun(run, schema, tenant string) error {
	whose, remedy := "", "it may have been removed after its retention, or be in another schema: troupe runs list shows those that are kept"
	if tenant != "" {
		whose, remedy = fmt.Sprintf(" of tenant %q", tenant), "it may be another tenant's: leave out --tenant to look at all"
	}
	return &notFoundError{fmt.Errorf("no run %s%s in schema %s of that database: %s", run, whose, schema, remedy)}
}

// oneRun accepts the id of one run.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes the id of one run, got %s: troupe runs list shows ids", c.CommandPath(), output.Count(len(args), "argument"))}
	}
	if _, err := troupe.ParseRunID(args[0]); err != nil {
		return &usageError{fmt.Errorf("%.80q is not the id of a run: troupe runs list shows ids, such as 0190c2f3-7a1b-7c3d-8e4f-0123456789ab", args[0])}
	}
	if tenant := c.Flags().Lookup("tenant"); tenant != nil && tenant.Changed && tenant.Value.String() == "" {
		return &usageError{errors.New("--tenant is empty: say which, or leave it out for any")} // an unset variable of a script
	}
	return nil
}

// runArg is the run that an argument names, which oneRun has accepted.
func runArg(args []string) troupe.RunID {
	run, _ := troupe.ParseRunID(args[0])
	return run
}
