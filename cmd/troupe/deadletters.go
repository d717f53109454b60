package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/migrations"
)

// deadFlags are the flags of the commands about dead letters.
type deadFlags struct {
	target

	filter   troupe.DeadLetterFilter
	reasons  []string
	requeued string
	json     bool
}

func deadLettersCommand(w world) *cobra.Command {
	f := &deadFlags{}
	c := &cobra.Command{
		Use:     "dead-letters",
		Aliases: []string{"dlq"},
		Short:   "List, show, requeue and purge steps that failed for good",
		Long: `Steps that failed for good: list, count, show, requeue and purge them.

A requeue lets the run go on as a new run: steps that completed are taken over,
the failed one and all that comes after it are executed. The ended run stays.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := c.PersistentFlags()
	flags.StringVar(&f.url, "database-url", "", "the database (default: "+environment.DatabaseURL+")")
	flags.StringVar(&f.schema, "schema", "", "schema of the tables (default: TROUPE_SCHEMA, else "+migrations.DefaultSchema+")")
	flags.BoolVar(&f.json, "json", false, "print JSON, one object a line")
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
	flags.DurationVar(&f.filter.OlderThan, "older-than", 0, "died at least so long ago, e.g. 72h")
	flags.DurationVar(&f.filter.YoungerThan, "younger-than", 0, "died less than so long ago")
	flags.StringVar(&f.requeued, "requeued", "", "yes: requeued ones only; no: others only")
	return c
}

// check refuses filters that are given and say nothing: an unset variable of a
// script must not select everything.
func (f *deadFlags) check(c *cobra.Command) error {
	for _, name := range append(selectingFlags(), "tenant") {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		switch text := flag.Value.String(); {
		case text == "" || text == "[]":
			return fmt.Errorf("--%s is empty: say which, or leave it out for all", name)
		case name == "older-than" && f.filter.OlderThan < 0, name == "younger-than" && f.filter.YoungerThan <= 0:
			return fmt.Errorf("--%s is %s: use a positive duration such as 72h", name, text)
		}
	}
	return nil
}

// selectingFlags names the flags that select dead letters, whoever their tenant
// is.
func selectingFlags() []string {
	return []string{"workflow", "step", "reason", "older-than", "younger-than", "requeued"}
}

// connect checks the flags and connects.
func (f *deadFlags) connect(c *cobra.Command, w world) (*troupe.DeadLetters, func(), error) {
	if err := f.check(c); err != nil {
		return nil, nil, &usageError{err}
	}
	for _, name := range f.reasons {
		reason, err := troupe.ParseDeadReason(name)
		if err != nil {
			return nil, nil, &usageError{fmt.Errorf("--reason: %w", err)}
		}
		f.filter.Reasons = append(f.filter.Reasons, reason)
	}
	switch f.requeued {
	case "":
	case "yes":
		f.filter.RequeuedOnly = true
	case "no":
		f.filter.NotRequeued = true
	default:
		return nil, nil, &usageError{fmt.Errorf("--requeued is %q: use yes or no", f.requeued)}
	}
	chosen, err := f.complete(w.environ)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	pool, err := chosen.open(c.Context())
	if err != nil {
		return nil, nil, &usageError{err}
	}
	letters, err := troupe.OpenDeadLetters(c.Context(), pool, chosen.schema)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return letters, func() {
		_ = letters.Close()
		pool.Close()
	}, nil
}

// deadRun is what a command does once it is connected.
type deadRun func(ctx context.Context, letters *troupe.DeadLetters, args []string) error

func (f *deadFlags) run(w world, do deadRun) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		letters, shut, err := f.connect(c, w)
		if err != nil {
			return err
		}
		defer shut()
		return do(c.Context(), letters, args)
	}
}

func deadList(w world, f *deadFlags) *cobra.Command {
	c := f.selecting(&cobra.Command{
		Use: "list", Short: "List dead letters, those of the oldest runs first", Args: noArguments,
		RunE: f.run(w, func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
			page, err := letters.List(ctx, f.filter)
			if err != nil {
				return err
			}
			if f.json {
				return printObjects(w.out, lettersOf(page.Letters))
			}
			return printLetters(w.out, page)
		}),
	})
	c.Flags().IntVar(&f.filter.Limit, "limit", 0, "letters of a page; 0: 100, at most 1000")
	c.Flags().StringVar(&f.filter.After, "after", "", "go on after this letter")
	return c
}

func deadCount(w world, f *deadFlags) *cobra.Command {
	return f.selecting(&cobra.Command{
		Use: "count", Short: "Count dead letters", Args: noArguments,
		RunE: f.run(w, func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
			count, err := letters.Count(ctx, f.filter)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(w.out, count)
			return err
		}),
	})
}

func deadShow(w world, f *deadFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one dead letter with its input and history", Args: oneID,
		RunE: f.run(w, func(ctx context.Context, letters *troupe.DeadLetters, args []string) error {
			detail, err := letters.Show(ctx, "", args[0])
			if err != nil {
				return err
			}
			if f.json {
				return printObjects(w.out, []detailJSON{detailOf(&detail)})
			}
			return printDetail(w.out, &detail)
		}),
	}
}

func deadPurge(w world, f *deadFlags) *cobra.Command {
	c := f.selecting(&cobra.Command{
		Use: "purge", Short: "Remove dead letters; their runs are not touched", Args: noArguments,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("older-than") {
				return &usageError{errors.New("purge needs --older-than: say how old a letter must be, 0s for all")}
			}
			return f.run(w, func(ctx context.Context, letters *troupe.DeadLetters, _ []string) error {
				count, err := letters.Purge(ctx, f.filter)
				if err != nil {
					return err
				}
				if f.json {
					return printObjects(w.out, []map[string]int{{"purged": count}})
				}
				_, err = fmt.Fprintf(w.out, "purged %d\n", count)
				return err
			})(c, args)
		},
	})
	c.Flags().IntVar(&f.filter.Limit, "limit", 0, "at most so many; 0: all")
	return c
}

// oneID accepts the id of one letter.
func oneID(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes the id of one dead letter, got %d arguments: troupe dead-letters list shows ids", c.CommandPath(), len(args))}
	}
	return nil
}

// printObjects prints one object a line, with nothing in it that a terminal
// would obey.
func printObjects[T any](out io.Writer, list []T) error {
	for i := range list {
		text, err := json.Marshal(list[i])
		if err == nil {
			_, err = fmt.Fprintln(out, visible(string(text)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printLetters(out io.Writer, page troupe.DeadLetterPage) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tDIED\tTENANT\tWORKFLOW\tSTEP\tREASON\tREQUEUES\tERROR") // a tabwriter fails when it is flushed
	for i := range page.Letters {
		l := &page.Letters[i]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%d\t%s\n", l.ID, stamp(l.DiedAt), plain(l.Tenant), plain(l.Workflow),
			plain(l.Step), l.Reason, l.Requeues, plain(short(firstLine(l.Error), errorWidth)))
	}
	err := table.Flush()
	if err == nil && page.Next != "" {
		_, err = fmt.Fprintf(out, "more: --after %s\n", page.Next)
	}
	return err
}

// errorWidth is how much of an error a listing shows, in characters.
const errorWidth = 80

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

func printDetail(out io.Writer, d *troupe.DeadLetterDetail) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	line("id", "%s", d.ID)
	line("workflow", "%s", plain(d.Workflow))
	line("step", "%s", plain(d.Step))
	line("tenant", "%s", plain(d.Tenant))
	line("reason", "%v", d.Reason)
	line("class", "%s", plain(d.Class))
	line("attempts", "%d, lost %d", d.Attempts, d.Losses)
	line("run", "%v, created %s, kept: %v", d.Run, stamp(d.CreatedAt), d.RunKept)
	line("died", "%s", stamp(d.DiedAt))
	if d.Requeues > 0 {
		line("requeued", "%d times, last %s as run %v", d.Requeues, stamp(d.RequeuedAt), d.RequeuedAs)
	}
	line("input", "%s", plain(short(string(d.Input), payloadWidth)))
	for _, p := range d.Parents {
		line("parent", "%s %v %s", plain(p.Step), p.State, plain(short(string(p.Output), payloadWidth)))
	}
	for _, e := range d.Events {
		line("event", "%s %s %s", stamp(e.At), e.Kind, plain(short(firstLine(e.Text), errorWidth)))
	}
	b.WriteString("error\n")
	for text := range strings.SplitSeq(d.Error, "\n") {
		b.WriteString("  " + plain(text) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// payloadWidth is how much of a payload is shown, in characters.
const payloadWidth = 2000
