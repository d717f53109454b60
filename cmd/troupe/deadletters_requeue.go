package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/persistence"
)

// requeueFlags are those of requeue alone.
type requeueFlags struct {
	options troupe.RequeueOptions
	all     bool
	first   int
	labels  map[string]string
	at      string
	file    string // with the new input
	raw     bool   // which is in the form of some other codec
	held    heldFlags
}

func deadRequeue(w world, f *deadFlags) *cobra.Command {
	var r requeueFlags
	c := f.selecting(&cobra.Command{
		Use: "requeue [ID]", Short: "Let the run of one dead letter, the first n or all selected ones continue",
		Args: func(c *cobra.Command, args []string) error { return r.check(c, w, args) },
		RunE: f.run(w, "select, insert, update, delete", func(ctx context.Context, letters *troupe.DeadLetters, args []string) error {
			if len(args) == 1 {
				done, err := letters.Requeue(ctx, f.filter.Tenant, args[0], r.options)
				if err != nil {
					return err
				}
				return printRequeued(ctx, w, f.pool, f.schema, f.json, done)
			}
			f.filter.Limit = r.first
			report, err := letters.RequeueAll(ctx, f.filter, r.options)
			unserved := unserved(ctx, w, f.pool, f.schema, report.Runs)
			if f.json {
				return errors.Join(output.Line(w.out, requeuedJSON{
					Runs: runsOf(report.Runs), TakenOver: report.TakenOver, Letters: report.Letters, GoOn: report.GoOn, Gone: report.Gone,
					Handled: report.Handled, Unserved: unserved,
				}), err)
			}
			_, printed := fmt.Fprintf(w.out, "requeued %s with %s; left alone: %d whose run continues, %d whose run is gone, %d that machines have handled\n",
				output.Count(len(report.Runs), "run"), output.Count(report.Letters, "letter"), report.GoOn, report.Gone, report.Handled)
			return errors.Join(err, printed)
		}),
	})
	flags := c.Flags()
	flags.BoolVar(&r.all, "all", false, "all selected ones")
	flags.IntVar(&r.first, "first", 0, "the first n runs of those selected, the oldest first")
	r.add(c)
	return c
}

// printRequeued prints what became of one run, and says on standard error if no living
// pod can execute it.
func printRequeued(ctx context.Context, w world, pool *pgxpool.Pool, schema string, asJSON bool, done troupe.Requeued) error {
	runs := []troupe.RunID{done.Run}
	unserved := unserved(ctx, w, pool, schema, runs)
	if asJSON {
		return output.Line(w.out, requeuedJSON{Runs: runsOf(runs), TakenOver: done.TakenOver, Letters: done.Letters, Unserved: unserved})
	}
	_, err := fmt.Fprintf(w.out, "requeued as run %v: %s taken over, %s\n",
		done.Run, output.Count(done.TakenOver, "step"), output.Count(done.Letters, "letter"))
	return err
}

// add adds the flags for what is different the second time.
func (r *requeueFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&r.options.Queue, "queue", "", "queue for steps that name none")
	flags.StringToStringVar(&r.labels, "label", nil, "labels instead of those of the run, as in color=red")
	flags.StringVar(&r.at, "at", "", "start no earlier, e.g. 2030-01-31T08:00:00Z")
	flags.BoolVar(&r.options.FromStart, "from-start", false, "execute every step again, also those that completed, under the definition that the ended run had")
	flags.StringVar(&r.file, "input", "", "file with another input, - for standard input: JSON; implies --from-start")
	flags.BoolVar(&r.raw, "raw", false, "take --input as it is: the program has a codec of its own")
	flags.BoolVar(&r.options.Again, "again", false, "also if requeued before")
	r.held.add(c)
}

// check says what is wrong with the call before anything is tried.
func (r *requeueFlags) check(c *cobra.Command, w world, args []string) error {
	first := c.Flags().Changed("first")
	switch {
	case len(args) > 1:
		return oneID(c, args)
	case len(args) == 1 && (r.all || first):
		return &usageError{errors.New("an id and --all or --first are both given: keep one")}
	case len(args) == 1 && slices.ContainsFunc(selectingFlags(), c.Flags().Changed):
		return &usageError{errors.New("an id and filters are both given: keep one")}
	case len(args) == 0 && !r.all && !first:
		return &usageError{errors.New("requeue takes an id, --first n or --all: say what to requeue")}
	case r.all && first:
		return &usageError{errors.New("--all and --first are both given: keep one")}
	case first && r.first < 1:
		return &usageError{fmt.Errorf("--first is %d: use 1 or more", r.first)}
	case len(args) == 1:
		if err := oneID(c, args); err != nil {
			return err
		}
	}
	return r.checkOptions(c, w, args)
}

// checkOptions says what is wrong with what is to be different the second time.
func (r *requeueFlags) checkOptions(c *cobra.Command, w world, args []string) error {
	switch {
	case c.Flags().Changed("queue") && r.options.Queue == "":
		return &usageError{errors.New("--queue is empty: say which, or leave it out for that of before")}
	case c.Flags().Changed("at") && r.at == "":
		return &usageError{errors.New("--at is empty: use the form 2030-01-31T08:00:00Z, or leave it out for now")}
	}
	err := r.complete()
	if err == nil {
		err = r.held.complete(c, &r.options)
	}
	if err == nil {
		err = r.input(c, w, args)
	}
	if err != nil {
		return &usageError{err}
	}
	return nil
}

// complete fills in the options of the new run, and says what is wrong with
// them.
func (r *requeueFlags) complete() (err error) {
	if r.labels != nil {
		r.options.Labels = r.labels
	}
	if r.options.At, err = startOf(r.at); err != nil {
		return err
	}
	return checkRun("any", "any", "", r.options.Queue, r.options.Labels, r.options.At)
}

// startOf reads the earliest start of a run; "": now.
func startOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--at is %q: use the form 2030-01-31T08:00:00Z", text)
	}
	return at, nil
}

// checkRun says what cannot be stored of a run, by the name of its flag.
func checkRun(workflow, tenant, key, queue string, labels map[string]string, at time.Time) error {
	run := persistence.Trigger{Workflow: workflow, Tenant: tenant, Key: key, Queue: queue, Labels: labels, At: at}
	refused := actors.CheckTrigger(&run, 0)
	switch {
	case refused == nil:
		return nil
	case refused.Field == "workflow":
		return fmt.Errorf("the name of the workflow: %s", refused.Remedy)
	}
	return fmt.Errorf("--%s: %s", strings.TrimSuffix(refused.Field, "s"), refused.Remedy) // labels are given one by one
}
