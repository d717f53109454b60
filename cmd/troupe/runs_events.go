package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// eventsPage is how many events one read brings.
const eventsPage = 1000

// Waits of runs tail between two looks. Each look is four statements at most, and two if
// nothing is new: two a second at most.
const (
	tailFirst = 2 * time.Second
	tailLast  = 4 * time.Second
)

func runsEvents(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "events RUN", Short: "Print the history of a run so far, the oldest event first", Args: oneRun,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.read(w, func(ctx context.Context, reader *troupe.Reader, args []string) error {
			all := []troupe.Event{} // no null for none
			_, err := eachEvent(ctx, reader, f.tenant, runArg(args), nil, func(e troupe.Event) error {
				if f.json {
					all = append(all, e)
					return nil
				}
				return f.printEvent(w.out, e)
			})
			if err != nil || !f.json {
				return err
			}
			return output.Line(w.out, struct {
				Events []troupe.Event `json:"events"`
			}{all})
		}),
	}
	return f.inLines(f.inJSON(f.ofTenant(c, w)))
}

func runsTail(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "tail RUN", Short: "Print the history of a run, and what is added to it until the run has ended", Args: oneRun,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.read(w, func(ctx context.Context, reader *troupe.Reader, args []string) error {
			var seen troupe.EventPosition
			over := false
			return output.Follow(ctx, tailFirst, tailLast, func() (found, ended bool, err error) {
				next, err := eachEvent(ctx, reader, f.tenant, runArg(args), seen, func(e troupe.Event) error {
					found, over = true, over || endOfRun(e)
					return f.printEvent(w.out, e)
				})
				seen = next
				return found, over, err
			})
		}),
	}
	return f.inLines(f.ofTenant(c, w))
}

// eachEvent calls use for every event of a run behind a position, and returns the position
// behind the last one.
func eachEvent(
	ctx context.Context, reader *troupe.Reader, tenant string, run troupe.RunID, seen troupe.EventPosition, use func(troupe.Event) error,
) (troupe.EventPosition, error) {
	for {
		events, next, err := reader.Events(ctx, tenant, run, seen, eventsPage)
		if err != nil {
			return seen, err
		}
		for _, e := range events {
			if err := use(e); err != nil {
				return next, err
			}
		}
		if seen = next; len(events) < eventsPage {
			return seen, nil
		}
	}
}

// endOfRun reports whether nothing comes after an event.
func endOfRun(e troupe.Event) bool {
	return e.Step == "" && (e.Kind == "run_completed" || e.Kind == "run_failed" || e.Kind == "run_canceled")
}

// printEvent prints an event on a line. Columns have fixed widths, because what is still
// to come is not known.
func (f *readFlags) printEvent(out io.Writer, e troupe.Event) error {
	if f.lines {
		return output.Line(out, e)
	}
	step := e.Step
	if step == "" {
		step = "the run"
	}
	line := fmt.Sprintf("%s  %-20s  %-16s  %s", e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), step, e.Kind, eventText(&e))
	_, err := fmt.Fprintln(out, strings.TrimRight(output.Plain(line), " "))
	return err
}

// eventText is what an event says beside its kind.
func eventText(e *troupe.Event) string {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Attempt > 0, "attempt %d", e.Attempt)
	add(e.PodName != "", "on %s", e.PodName)
	add(e.Pod != 0 && e.PodName == "", "on pod %d", e.Pod)
	add(e.Delay > 0, "again in %s", explain.Span(e.Delay))
	add(e.Delay == 0 && !e.WakeAt.IsZero(), "until %s", output.Stamp(e.WakeAt))
	about := e.Kind == "waiting" || e.Kind == "signaled" // By is a signal, a child run, or how many elements
	_, noRun := troupe.ParseRunID(e.By)
	add(about && noRun == nil, "run %s", e.By)
	elements := strings.HasSuffix(e.By, " elements") // the name of a signal has no space
	add(elements, "for %s", e.By)
	about = about || e.Kind == "signal_refused"
	add(e.By != "" && about && noRun != nil && !elements, "signal %s", e.By)
	entries := e.Kind == "activated" // By is how many entries the machine has handled
	add(entries, "%s", e.By)
	add(e.Kind == "trimmed", "events of this kind up to number %d were removed", e.N)
	add(e.By != "" && !about && !entries, "by %s", e.By)
	add(e.Class != "" || e.Text != "", "%s", failureText(e.Class, output.Error(e.Text)))
	return strings.Join(parts, ", ")
}
