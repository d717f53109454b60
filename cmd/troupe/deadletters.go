package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/migrations"
)

// deadFlags are the flags of the commands about dead letters.
type deadFlags struct {
	target

	filter   troupe.DeadLetterFilter
	reasons  []string
	requeued string
	json     bool
	pool     *pgxpool.Pool // once connected
}

func deadLettersCommand(w world) *cobra.Command {
	f := &deadFlags{}
	c := &cobra.Command{
		Use:     "dead-letters",
		Aliases: []string{"dlq"},
		Short:   "List, show, requeue and purge steps that failed for good",
		Long: `Steps that failed for good: list, count, show, requeue and purge them.

A requeue lets the run continue as a new run: steps that completed are taken over,
the failed one and all that comes after it are executed. Of a map that failed, the
elements that completed are taken over, and the others are executed. The ended run
stays. --attempts and --attempt-timeout hold for the new run in place of what its
program says. A state machine continues from its state; the letter of a failure that it
has handled is not requeued.
The new run is of the definition that the ended run had, with --from-start, too:
a pod of that version has to live. Letters of a workflow that has changed are
requeued from the start in a program that registers the new version.

A failed child run has letters of its own. Requeue the letter of its parent, which
has class child_failed, and not those of the child run.

With --json each command prints one object on one line, and every key is always
there. A time that never was, a run that does not exist and a next page that does
not exist are null.

  list     {"letters": [{"id", "run", "workflow", "step", "tenant", "reason",
           "class", "error", "attempts", "losses", "handled", "created_at",
           "started_at", "died_at", "requeues", "requeued_at", "requeued_as"}, …],
           "next": what --after takes for the next page}
  count    {"count"}
  show     the keys of a letter, and "run_kept", "input", "parents": [{"step",
           "state", "output", "size"}, …], "events": [{"at", "kind", "by", "class",
           "text"}, …]; a payload that is not JSON is its bytes in base64
  requeue  {"runs": [the new ones], "taken_over", "letters", "go_on", "gone",
           "handled", "unserved": new runs with steps that no living pod registers}
  purge    {"purged"}`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := c.PersistentFlags()
	flags.StringVar(&f.url, "database-url", "", "the database (default: "+environment.DatabaseURL+")")
	flags.StringVar(&f.schema, "schema", "", "schema of the tables (default: TROUPE_SCHEMA, else "+migrations.DefaultSchema+")")
	flags.BoolVar(&f.json, "json", false, "print one JSON object, on one line")
	c.AddCommand(
		deadList(w, f), deadCount(w, f), deadShow(w, f), deadRequeue(w, f), deadPurge(w, f),
	)
	return c
}

// selecting adds the flags that select dead letters.
func (f *deadFlags) selecting(c *cobra.Command) *cobra.Command {
	flags := c.Flags()
	flags.StringVar(&f.filter.Tenant, "tenant", "", "of this tenant only")
	flags.StringVar(&f.filter.Workflow, "workflow", "", "of this workflow only")
	flags.StringVar(&f.filter.Step, "step", "", "of this step only")
	flags.StringSliceVar(&f.reasons, "reason", nil,
		"for these reasons only: attempts_exhausted, non_retryable, poison, unregistered, undecodable, timed_out")
	flags.Var((*age)(&f.filter.OlderThan), "older-than", "died at least so long ago, e.g. 72h or 3d")
	flags.Var((*age)(&f.filter.YoungerThan), "younger-than", "died less than so long ago")
	flags.StringVar(&f.requeued, "requeued", "", "yes: requeued ones only; no: others only")
	return c
}

// connect checks the flags and connects. The rights are those on tables that the command
// needs.
func (f *deadFlags) connect(c *cobra.Command, w world, rights string) (*troupe.DeadLetters, func(), error) {
	if err := f.complete(c, w); err != nil {
		return nil, nil, &usageError{err}
	}
	pool, err := f.open(c.Context())
	if err != nil {
		return nil, nil, &usageError{err}
	}
	f.pool = pool
	letters, err := troupe.OpenDeadLetters(c.Context(), pool, f.schema)
	if err != nil {
		defer pool.Close()
		return nil, nil, mended(c.Context(), pool, err, f.schema, rights)
	}
	return letters, func() {
		_ = letters.Close()
		pool.Close()
	}, nil
}

// deadRun is what a command does once it is connected.
type deadRun func(ctx context.Context, letters *troupe.DeadLetters, args []string) error

// run connects, once nothing is wrong with the call. The rights are those on
// tables that the command needs.
func (f *deadFlags) run(w world, rights string, do deadRun) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		letters, shut, err := f.connect(c, w, rights)
		if err != nil {
			return err
		}
		defer shut()
		return inFlags(mended(c.Context(), f.pool, do(c.Context(), letters, args), f.schema, rights), args, f.filter.Tenant)
	}
}

func deadList(w world, f *deadFlags) *cobra.Command {
	limit := deadPage
	c := f.selecting(&cobra.Command{
		Use: "list", Short: "List dead letters, those of the oldest runs first",
		Args: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > deadPageMax {
				return &usageError{fmt.Errorf("--limit is %d: use 1 to %d, and --after for more", limit, deadPageMax)}
			}
			f.filter.Limit = limit
			return noArguments(c, args)
		},
		RunE: f.run(w, "select", func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
			page, err := letters.List(ctx, f.filter)
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(w.out, pageOf(page))
			}
			return printLetters(w.out, page)
		}),
	})
	c.Flags().IntVar(&limit, "limit", limit, fmt.Sprintf("letters of a page, 1 to %d", deadPageMax))
	c.Flags().StringVar(&f.filter.After, "after", "", "continue after the letter with this id")
	return c
}

func deadCount(w world, f *deadFlags) *cobra.Command {
	return f.selecting(&cobra.Command{
		Use: "count", Short: "Count dead letters", Args: noArguments,
		RunE: f.run(w, "select", func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
			count, err := letters.Count(ctx, f.filter)
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(w.out, map[string]int{"count": count})
			}
			_, err = fmt.Fprintln(w.out, count)
			return err
		}),
	})
}

func deadShow(w world, f *deadFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one dead letter with its input and history", Args: oneID,
		RunE: f.run(w, "select", func(ctx context.Context, letters *troupe.DeadLetters, args []string) error {
			detail, err := letters.Show(ctx, "", args[0])
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(w.out, detailOf(&detail))
			}
			return printDetail(w.out, &detail)
		}),
	}
}

func deadPurge(w world, f *deadFlags) *cobra.Command {
	limit := 0
	c := f.selecting(&cobra.Command{
		Use: "purge", Short: "Remove dead letters; their runs are not touched",
		Args: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("older-than") {
				return &usageError{errors.New("purge needs --older-than: say how old a letter must be, 0s for all")}
			}
			if limit < 0 {
				return &usageError{fmt.Errorf("--limit is %d: use 1 or more, or 0 for all", limit)}
			}
			f.filter.Limit = limit
			return noArguments(c, args)
		},
		RunE: f.run(w, "select, update, delete", func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
			count, err := letters.Purge(ctx, f.filter)
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(w.out, map[string]int{"purged": count})
			}
			_, err = fmt.Fprintf(w.out, "purged %d\n", count)
			return err
		}),
	})
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0: all")
	return c
}

func printLetters(out io.Writer, page troupe.DeadLetterPage) error {
	table := output.NewTable("ID", "DIED", "TENANT", "WORKFLOW", "STEP", "REASON", "REQUEUES", "ERROR")
	for i := range page.Letters {
		l := &page.Letters[i]
		table.Add(l.ID, output.Stamp(l.DiedAt), l.Tenant, l.Workflow, l.Step, l.Reason.String(), strconv.Itoa(l.Requeues), output.Error(l.Error))
	}
	err := table.Write(out)
	if err == nil && page.Next != "" {
		_, err = fmt.Fprintf(out, "more: --after %s\n", page.Next)
	}
	return err
}

func printDetail(out io.Writer, d *troupe.DeadLetterDetail) error {
	var f output.Fields
	f.Add("id", "%s", d.ID)
	f.Add("workflow", "%s", d.Workflow)
	f.Add("step", "%s", d.Step)
	f.Add("tenant", "%s", d.Tenant)
	f.Add("reason", "%v", d.Reason)
	f.Add("class", "%s", d.Class)
	f.Add("attempts", "%d, lost %d", d.Attempts, d.Losses)
	if d.Handled {
		f.Add("handled", "the failure did not fail the run by itself")
	}
	f.Add("run", "%v, created %s, kept: %v", d.Run, output.Stamp(d.CreatedAt), d.RunKept)
	f.Add("died", "%s", output.Stamp(d.DiedAt))
	if d.Requeues > 0 {
		f.Add("requeued", "%s, last %s as run %v", output.Times(d.Requeues), output.Stamp(d.RequeuedAt), d.RequeuedAs)
	}
	f.Add("input", "%s", output.Short(string(d.Input), payloadWidth))
	for _, p := range d.Parents {
		f.Add("parent", "%s %v %s", p.Step, p.State, output.Short(string(p.Output), payloadWidth))
	}
	for _, e := range d.Events {
		f.Add("event", "%s %s %s", output.Stamp(e.At), e.Kind, output.Error(e.Text))
	}
	f.AddText("error", d.Error)
	return f.Write(out)
}

// payloadWidth is how much of a payload is shown, in characters.
const payloadWidth = 2000
