package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// originCLI is how the history of a run names this command. The user follows it, if the
// environment tells.
const originCLI = "cli"

// operating is what a command does with an operator.
type operating func(ctx context.Context, operator *troupe.Operator, pool *pgxpool.Pool, args []string) error

// operate connects, and acts once nothing is wrong with the call. The rights are those on
// tables that the command needs.
func (f *readFlags) operate(w world, rights, by string, do operating) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		pool, err := f.connect(c, w)
		if err != nil {
			return err
		}
		defer pool.Close()
		operator, err := troupe.OpenOperator(c.Context(), pool, f.schema, by)
		if err != nil {
			return mended(c.Context(), pool, err, f.schema, rights)
		}
		defer func() { _ = operator.Close() }() // what it did is durable
		return f.worded(mended(c.Context(), pool, do(c.Context(), operator, pool, args), f.schema, rights), args)
	}
}

// userOf is the command and the user that the environment names.
func userOf(environ []string) string {
	for _, entry := range environ {
		if user, is := strings.CutPrefix(entry, "USER="); is && user != "" {
			return originCLI + " (" + output.Short(output.Plain(user), userWidth) + ")"
		}
	}
	return originCLI
}

// userWidth is how much of the name of a user is kept, in characters.
const userWidth = 64

func runsCancel(w world, f *readFlags) *cobra.Command {
	var options troupe.CancelOptions
	c := &cobra.Command{
		Use: "cancel RUN", Short: "Ask a run to stop",
		Long: `Asks a run to stop. What waits is canceled at once, and what runs is told by its
context; a step that has not returned after the grace is given up. The history of the
run names this command, the user (USER in the environment) and the reason.`,
		Args: func(c *cobra.Command, args []string) error {
			switch grace := c.Flags().Lookup("grace"); {
			case grace.Changed && options.Grace <= 0:
				return &usageError{fmt.Errorf("--grace is %v: use a positive duration such as 30s", options.Grace)}
			case options.Grace > ageMax:
				return &usageError{fmt.Errorf("--grace is %v: use at most %.0fh, a hundred years", options.Grace, ageMax.Hours())}
			}
			return oneRun(c, args)
		},
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.operate(w, "select, insert, update, delete", userOf(w.environ), func(ctx context.Context, operator *troupe.Operator, _ *pgxpool.Pool, args []string) error {
			if options.Grace == 0 {
				options.Grace = f.config.CancelGrace // that of the pods, if the environment tells
			}
			outcome, err := operator.Cancel(ctx, f.tenant, runArg(args), options)
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(w.out, canceledJSON{Run: args[0], State: outcome.State.String(), Before: outcome.Before})
			}
			_, err = fmt.Fprintf(w.out, "run %s %s\n", args[0], canceledText(outcome))
			return err
		}),
	}
	c.Flags().StringVar(&options.Reason, "reason", "", "why, for those who read the run")
	c.Flags().DurationVar(&options.Grace, "grace", 0, "after which running steps are given up (default: TROUPE_CANCEL_GRACE, else that of an engine)")
	return f.inJSON(f.ofTenant(c, w))
}

// canceledJSON is what became of a cancel, as scripts get it.
type canceledJSON struct {
	Run    string `json:"run"`
	State  string `json:"state"`
	Before bool   `json:"before"`
}

// canceledText says the same to people.
func canceledText(outcome troupe.CancelOutcome) string {
	switch {
	case outcome.Before && outcome.State.Terminal():
		return fmt.Sprintf("had ended before, it is %v: nothing was changed", outcome.State)
	case outcome.Before:
		return fmt.Sprintf("had been asked to stop before, it is %v: troupe explain says what it waits for", outcome.State)
	case outcome.State.Terminal():
		return fmt.Sprintf("is %v", outcome.State)
	}
	return fmt.Sprintf("is asked to stop, it is %v until its steps have stopped", outcome.State)
}

func runsRequeue(w world, f *readFlags) *cobra.Command {
	var r requeueFlags
	c := &cobra.Command{
		Use: "requeue RUN", Short: "Let a run that has failed continue, as a new run",
		Long: `Lets a run that has failed continue as a new run, as troupe dead-letters requeue does:
steps that completed are taken over, the failed ones and all that comes after them are
executed. Of a map that failed, the elements that completed are taken over, and the
others are executed. All dead letters of the run count as requeued; the ended run stays.

Of a failed child run requeue the parent, when that has ended: it begins another
child run. A child run that is requeued alone continues without a parent.`,
		Args: func(c *cobra.Command, args []string) error {
			if err := oneRun(c, args); err != nil {
				return err
			}
			return r.checkOptions(c, w, args)
		},
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.operate(w, "select, insert, update, delete", userOf(w.environ), func(ctx context.Context, operator *troupe.Operator, pool *pgxpool.Pool, args []string) error {
			done, err := operator.DeadLetters().RequeueRun(ctx, f.tenant, runArg(args), r.options)
			if errors.Is(err, troupe.ErrDeadLetterNotFound) {
				return &notFoundError{fmt.Errorf("run %s has no dead letter, so nothing can be requeued: troupe runs show tells its state, "+
					"troupe runs trigger begins another run", args[0])}
			}
			if err != nil {
				return inFlags(err, args, f.tenant)
			}
			return printRequeued(ctx, w, pool, f.schema, f.json, done)
		}),
	}
	r.add(c)
	return f.inJSON(f.ofTenant(c, w))
}

// triggerFlags are those of runs trigger.
type triggerFlags struct {
	input, key, version, queue, at string
	labels                         map[string]string
	raw, wait                      bool

	payload []byte
	options []troupe.TriggerOption
}

// Waits of runs trigger --wait between two looks, each of which is one statement.
const (
	awaitFirst = 250 * time.Millisecond
	awaitLast  = time.Second
)

func runsTrigger(w world, f *readFlags) *cobra.Command {
	t := &triggerFlags{}
	c := &cobra.Command{
		Use: "trigger WORKFLOW", Short: "Trigger a run of a stored workflow",
		Long: `Triggers a run of a workflow that a pod has registered, with JSON as the default
codec writes it; its pods execute it. Whether the input fits the workflow shows
when its first step decodes it.

A workflow with conditions on its input is refused, because they are Go functions
that only a program has which registers it: trigger it there.

With --wait the command ends with the run: it prints the output and exits with 0, or
says why the run failed or was canceled and exits with 4.`,
		Example: `  troupe runs trigger orders --input '{"ID": "o-1", "Cents": 4200}' --wait
  troupe runs trigger orders --input @order.json --tenant acme --key o-1
  generate | troupe runs trigger orders --input -`,
		Args:              func(c *cobra.Command, args []string) error { return t.check(c, w, f, args) },
		ValidArgsFunction: f.argument(w, workflowNames),
		RunE: f.operate(w, "select, insert, update", originCLI, func(ctx context.Context, operator *troupe.Operator, _ *pgxpool.Pool, args []string) error {
			return t.trigger(ctx, w, f, operator, args[0])
		}),
	}
	flags := c.Flags()
	flags.StringVar(&t.input, "input", "", "the input: JSON, @file, or - for standard input; null for none")
	flags.BoolVar(&t.raw, "raw", false, "take --input as it is: the program has a codec of its own")
	flags.StringVar(&t.key, "key", "", "idempotency key: a run that has it and the same input is not triggered again")
	flags.StringToStringVar(&t.labels, "label", nil, "a label, as in color=red")
	flags.StringVar(&t.at, "at", "", "start no earlier, e.g. 2030-01-31T08:00:00Z")
	flags.StringVar(&t.queue, "queue", "", "queue for steps that name none")
	flags.StringVar(&t.version, "version", "", "how the hash of the definition begins, if living pods register several")
	flags.BoolVar(&t.wait, "wait", false, "wait for the end of the run, and print its output")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the run (default: TROUPE_DEFAULT_TENANT, else default)")
	completes(c, "tenant", f.completer(w, tenantNames))
	return f.inJSON(c)
}
