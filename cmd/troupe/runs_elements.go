package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// elementFlags are those of runs elements alone.
type elementFlags struct {
	filter troupe.ElementFilter
	states []string
}

// elementStates are the states of an element of a map.
func elementStates() []troupe.State {
	return []troupe.State{troupe.StateQueued, troupe.StateRunning, troupe.StateBackoff, troupe.StateCompleted, troupe.StateFailed, troupe.StateCanceled}
}

func runsElements(w world, f *readFlags) *cobra.Command {
	e := &elementFlags{}
	c := &cobra.Command{
		Use: "elements RUN STEP", Short: "List the elements of a map of a run, in the order in which they were made",
		ValidArgsFunction: stepArgument(w, f),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{fmt.Errorf("%s takes the id of a run and the name of a map of it, got %s: troupe runs show names its steps",
					c.CommandPath(), output.Count(len(args), "argument"))}
			}
			if err := oneRun(c, args[:1]); err != nil {
				return err
			}
			if err := e.complete(); err != nil {
				return &usageError{err}
			}
			return nil
		},
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error {
			page, err := reader.Elements(ctx, f.tenant, runArg(args), args[1], e.filter)
			switch {
			case err != nil:
				return err
			case f.json:
				return output.Line(out, page)
			case f.lines:
				if err := output.Lines(out, page.Elements); err != nil {
					return err
				}
				return moreElements(w.err, &page)
			}
			return printElements(out, &page)
		}),
	}
	flags := c.Flags()
	flags.StringSliceVar(&e.states, "state", nil, "in these states only: "+namesOf(elementStates()))
	flags.IntVar(&e.filter.Limit, "limit", runsPage, fmt.Sprintf("elements of a page, 1 to %d", runsPageMax))
	flags.IntVar(&e.filter.After, "after", 0, "continue after a page, by the number at its end (in JSON its next), which is no index of an item")
	completes(c, "state", stateCompletionOf(elementStates()))
	return f.watched(f.inLines(f.inJSON(f.ofTenant(c, w))))
}

// complete fills in the filter, and says what is wrong with it.
func (e *elementFlags) complete() error {
	if limit := e.filter.Limit; limit < 1 || limit > runsPageMax {
		return fmt.Errorf("--limit is %d: use 1 to %d, and --after for more", limit, runsPageMax)
	}
	if after := e.filter.After; after < 0 || after != int(int32(after)) {
		return fmt.Errorf("--after is %d: take the number that the page before names", after)
	}
	for _, name := range e.states {
		at := slices.IndexFunc(elementStates(), func(s troupe.State) bool { return s.String() == name })
		if at < 0 {
			return fmt.Errorf("--state is %q: use one of %s", name, namesOf(elementStates()))
		}
		e.filter.States = append(e.filter.States, elementStates()[at])
	}
	return nil
}

// stepArgument completes the id of a run, and behind it the name of a map of that.
func stepArgument(w world, f *readFlags) completion {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return f.completer(w, runIDs)(c, args, begun)
		case 1:
			return f.completer(w, mapNames(args[0]))(c, args, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// mapNames finds the maps of a run that have begun their elements.
func mapNames(run string) finding {
	return func(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error) {
		id, err := troupe.ParseRunID(run)
		if err != nil {
			return nil, err
		}
		reader, err := troupe.OpenReader(ctx, pool, f.schema)
		if err != nil {
			return nil, err
		}
		defer func() { _ = reader.Close() }() // it was only read
		status, err := reader.Run(ctx, f.tenant, id)
		if err != nil {
			return nil, err
		}
		var found []cobra.Completion
		for i := range status.Steps {
			if s := &status.Steps[i]; s.Map.Items > 0 && strings.HasPrefix(s.Name, begun) {
				found = append(found, cobra.CompletionWithDesc(s.Name, elementsText(&s.Map)))
			}
		}
		return found, nil
	}
}

func printElements(out io.Writer, page *troupe.ElementPage) error {
	m := &page.Map
	title := fmt.Sprintf("%s: %d completed, %d failed or canceled, %d open, %d not begun", output.Count(m.Items, "item"), m.Completed, m.Failed, m.Open, m.Left)
	switch {
	case m.Items > 0:
	case len(page.Elements) > 0:
		title = "the map has not begun in this run; these elements completed in the run that it continues"
	default:
		title = "the map has begun no elements"
	}
	if _, err := fmt.Fprintf(out, "%s\n\n", title); err != nil {
		return err
	}
	table := output.NewTable("ITEM", "STATE", "ATTEMPT", "POD", "STARTED", "TOOK", "OUTPUT", "WHY")
	for i := range page.Elements {
		e := &page.Elements[i]
		s := troupe.StepStatus{State: e.State, Attempt: e.Attempt, Losses: e.Losses, Class: e.Class, Error: e.Error, WakeAt: e.WakeAt}
		table.Add(strconv.Itoa(e.Item), e.State.String(), attemptText(&s), e.Pod, output.Stamp(e.StartedAt), tookText(e.StartedAt, e.FinishedAt),
			sizeText(e.OutputSize), stepWhy(&s))
	}
	if err := table.Write(out); err != nil {
		return err
	}
	return moreElements(out, page)
}

// moreElements says how to get the next page, if there is one.
func moreElements(out io.Writer, page *troupe.ElementPage) error {
	if page.Next == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "more: --after %d\n", page.Next)
	return err
}

// elementsText is how far a map has come; "": it has begun no elements.
func elementsText(m *troupe.MapStatus) string {
	switch {
	case m.Items == 0:
		return ""
	case m.Failed > 0:
		return fmt.Sprintf("%d of %d, %d failed or canceled", m.Completed, m.Items, m.Failed)
	}
	return fmt.Sprintf("%d of %d", m.Completed, m.Items)
}

func namesOf(states []troupe.State) string {
	var names []string
	for _, state := range states {
		names = append(names, state.String())
	}
	return strings.Join(names, ", ")
}
