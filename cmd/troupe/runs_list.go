package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/persistence"
)

// listFlags are those of runs list alone.
type listFlags struct {
	filter               troupe.Filter
	states               []string
	since, until, before string
	parent               string
	steps                bool // name the steps that began the runs
}

// Runs of a page of a listing.
const (
	runsPage    = 100
	runsPageMax = persistence.PageMax
)

// listBudget is how long a page may be searched for where no index serves a filter.
const listBudget = 2 * time.Second

// runStates are the states of a run.
func runStates() []troupe.State {
	return []troupe.State{troupe.StatePending, troupe.StateRunning, troupe.StateCompleted, troupe.StateFailed, troupe.StateCanceled}
}

func runsList(w world, f *readFlags) *cobra.Command {
	l := &listFlags{}
	c := &cobra.Command{
		Use: "list", Short: "List runs, the newest first",
		Args: func(c *cobra.Command, args []string) error {
			if err := l.complete(c, f); err != nil {
				return &usageError{err}
			}
			return noArguments(c, args)
		},
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, _ []string) error {
			page, err := reader.Runs(ctx, l.filter)
			if err != nil {
				return err
			}
			if f.every == 0 {
				l.unknownOrigin(w.err, &page)
			}
			return l.show(w, f, out, &page)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&l.parent, "parent", "", "child runs of the run with this id only")
	flags.StringVar(&l.filter.Workflow, "workflow", "", "of this workflow only")
	flags.StringToStringVar(&l.filter.Labels, "label", nil, "with this label, as in color=red; several: all of them")
	flags.StringVar(&l.filter.Key, "key", "", "with this idempotency key")
	flags.StringVar(&l.filter.Origin, "origin", "", "triggered by this: "+strings.Join(origins(), ", ")+", or what a program calls itself")
	flags.StringVar(&l.filter.Class, "class", "", "failed with an error of this class")
	flags.StringVar(&l.filter.FailedStep, "failed-step", "", "failed at this step")
	flags.StringVar(&l.since, "since", "", "triggered since then: so long ago, as in 2h or 3d, or an instant such as 2030-01-31T08:00:00Z")
	flags.StringVar(&l.until, "until", "", "triggered before then, in the same forms")
	completes(c, "workflow", f.completer(w, workflowNames))
	completes(c, "parent", f.completer(w, runIDs))
	return l.paged(c, w, f)
}

// paged adds the flags of all listings of runs.
func (l *listFlags) paged(c *cobra.Command, w world, f *readFlags) *cobra.Command {
	flags := c.Flags()
	flags.StringSliceVar(&l.states, "state", nil, "in these states only: "+stateNames())
	flags.IntVar(&l.filter.Limit, "limit", runsPage, fmt.Sprintf("runs of a page, 1 to %d", runsPageMax))
	flags.StringVar(&l.before, "before", "", "continue with the runs older than the one with this id")
	completes(c, "state", stateCompletionOf(runStates()))
	return f.watched(f.inLines(f.inJSON(f.ofTenant(c, w))))
}

func runsChildren(w world, f *readFlags) *cobra.Command {
	l := &listFlags{}
	c := &cobra.Command{
		Use: "children RUN", Short: "List the child runs of a run, the newest first",
		ValidArgsFunction: f.argument(w, runIDs),
		Args: func(c *cobra.Command, args []string) error {
			if err := oneRun(c, args); err != nil {
				return err
			}
			l.parent = args[0]
			if err := l.complete(c, f); err != nil {
				return &usageError{err}
			}
			return nil
		},
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error {
			page, err := reader.Runs(ctx, l.filter)
			if err != nil {
				return err
			}
			parent, err := reader.Run(ctx, f.tenant, runArg(args))
			if err != nil && (len(page.Runs) == 0 && page.Next.IsZero() || !errors.Is(err, troupe.ErrRunNotFound)) {
				return err // a parent may be removed before its child runs
			}
			l.name(&page, &parent)
			return l.show(w, f, out, &page)
		}),
	}
	return l.paged(c, w, f)
}

// name says of each run of a page which step of the parent began it.
func (l *listFlags) name(page *troupe.RunPage, parent *troupe.RunStatus) {
	steps := map[troupe.RunID]string{}
	for i := range parent.Steps {
		steps[parent.Steps[i].Child] = parent.Steps[i].Name
	}
	l.steps = true
	for i := range page.Runs {
		page.Runs[i].ParentStep = steps[page.Runs[i].ID]
	}
}

// show prints a page in the form that the flags say.
func (l *listFlags) show(w world, f *readFlags, out io.Writer, page *troupe.RunPage) error {
	switch {
	case f.json:
		return output.Line(out, page)
	case f.lines:
		if err := output.Lines(out, page.Runs); err != nil {
			return err
		}
		return l.more(w.err, page)
	}
	return l.print(out, page)
}

// origins are those of the engine and of this command. Messages and operators of other
// programs have names of their own.
func origins() []string { return []string{"api", "tx", "message", "requeue", "child", originCLI} }

// unknownOrigin says of an origin that selects nothing which ones there are.
func (l *listFlags) unknownOrigin(out io.Writer, page *troupe.RunPage) {
	if l.filter.Origin == "" || len(page.Runs) > 0 || !page.Next.IsZero() || slices.Contains(origins(), l.filter.Origin) {
		return
	}
	_, _ = fmt.Fprintln(out, output.Plain(fmt.Sprintf("troupe: no run was found, and %q is no origin that the engine sets: use one of %s, or what a program calls itself in messages or as an operator",
		l.filter.Origin, strings.Join(origins(), ", "))))
}

func stateNames() string { return namesOf(runStates()) }

// complete fills in the filter, and says what is wrong with it.
func (l *listFlags) complete(c *cobra.Command, f *readFlags) error {
	for _, name := range []string{"workflow", "parent", "state", "label", "key", "origin", "class", "failed-step", "since", "until", "before"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		switch text := flag.Value.String(); {
		case text == "" || text == "[]":
			return fmt.Errorf("--%s is empty: say which, or leave it out for all", name) // an unset variable of a script
		case !utf8.ValidString(text):
			return fmt.Errorf("--%s is %q, which is not valid UTF-8: write it in UTF-8", name, text)
		}
	}
	if limit := l.filter.Limit; limit < 1 || limit > runsPageMax {
		return fmt.Errorf("--limit is %d: use 1 to %d, and --before for more", limit, runsPageMax)
	}
	for _, name := range l.states {
		at := slices.IndexFunc(runStates(), func(s troupe.State) bool { return s.String() == name })
		if at < 0 {
			return fmt.Errorf("--state is %q: use one of %s", name, stateNames())
		}
		l.filter.States = append(l.filter.States, runStates()[at])
	}
	l.filter.Tenant, l.filter.Budget = f.tenant, listBudget
	var err error
	if l.filter.Since, err = instantOf("since", l.since); err != nil {
		return err
	}
	if l.filter.Until, err = instantOf("until", l.until); err != nil {
		return err
	}
	if l.parent != "" {
		if l.filter.Parent, err = troupe.ParseRunID(l.parent); err != nil {
			return fmt.Errorf("--parent is %.80q, which is not the id of a run: troupe runs list shows ids", l.parent)
		}
	}
	if l.before != "" {
		if l.filter.Before, err = troupe.ParseRunID(l.before); err != nil {
			return fmt.Errorf("--before is %.80q, which is not the id of a run: take the one that the page before names", l.before)
		}
	}
	return nil
}

func (l *listFlags) print(out io.Writer, page *troupe.RunPage) error {
	columns := []string{"RUN", "STATE", "TENANT", "WORKFLOW", "TRIGGERED", "TOOK", "LABELS", "WHY"}
	if l.steps {
		columns = slices.Insert(columns, 1, "STEP")
	}
	table := output.NewTable(columns...)
	for i := range page.Runs {
		r := &page.Runs[i]
		cells := []string{
			r.ID.String(), stateText(r), r.Tenant, r.Workflow, output.Stamp(r.CreatedAt), tookText(r.StartedAt, r.FinishedAt),
			labelText(r.Labels), whyText(r, output.Error),
		}
		if l.steps {
			cells = slices.Insert(cells, 1, r.ParentStep)
		}
		table.Add(cells...)
	}
	if err := table.Write(out); err != nil {
		return err
	}
	return l.more(out, page)
}

// more says how to get the next page, if there is one. A page that is short was not
// searched for to the end.
func (l *listFlags) more(out io.Writer, page *troupe.RunPage) error {
	if page.Next.IsZero() {
		return nil
	}
	searched := ""
	if len(page.Runs) < l.filter.Limit {
		searched = "searched back to " + output.Stamp(idInstant(page.Next)) + "; "
	}
	_, err := fmt.Fprintf(out, "%smore: --before %v\n", searched, page.Next)
	return err
}

// idInstant is when the id of a run was made, which its first 48 bits count in
// milliseconds.
func idInstant(id troupe.RunID) time.Time {
	var whole [8]byte
	copy(whole[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(whole[:])))
}
