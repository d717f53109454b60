package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

func runsCommand(w world) *cobra.Command {
	f := &readFlags{}
	c := &cobra.Command{
		Use:   "runs",
		Short: "List, show, follow, cancel, requeue, trigger and signal runs",
		Long: `Runs: list them, show one with its steps, follow its events, cancel, requeue and
trigger them, send them signals, read the states of state machines. Each works on the
database alone, beside pods or without any.

With --json a command prints one object on one line, with --jsonl an object on
each line; docs/command.md of the project says which.

Exit codes: 0 done, 1 an error, 2 the call was wrong, 3 what the call names is
not there, 4 the run of trigger --wait has failed or was canceled.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f.add(c)
	c.AddCommand(
		runsList(w, f), runsChildren(w, f), runsElements(w, f), runsShow(w, f), runsEvents(w, f), runsTail(w, f), runsCancel(w, f), runsRequeue(w, f), runsTrigger(w, f),
		runsSignal(w, f), runsState(w, f), runsReplay(w, f),
	)
	return c
}

func runsShow(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "show RUN", Short: "Show a run and its steps, without their outputs", Args: oneRun,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error {
			status, err := reader.Run(ctx, f.tenant, runArg(args))
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(out, status)
			}
			return printRun(out, &status)
		}),
	}
	return f.watched(f.inJSON(f.ofTenant(c, w)))
}

func printRun(out io.Writer, r *troupe.RunStatus) error {
	var f output.Fields
	f.Add("run", "%v", r.ID)
	f.Add("workflow", "%s", r.Workflow)
	f.Add("tenant", "%s", r.Tenant)
	f.Add("state", "%s", stateText(r))
	if r.Key != "" {
		f.Add("key", "%s", r.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		f.Add("label", "%s=%s", name, r.Labels[name])
	}
	f.Add("triggered", "%s, by %s", output.Stamp(r.CreatedAt), cmp.Or(r.Origin, "-"))
	if !r.Parent.IsZero() {
		f.Add("parent", "%v, step %s", r.Parent, cmp.Or(r.ParentStep, "-"))
	}
	f.Add("started", "%s", output.Stamp(r.StartedAt))
	f.Add("finished", "%s", output.Stamp(r.FinishedAt))
	if took := tookText(r.StartedAt, r.FinishedAt); took != "" {
		f.Add("took", "%s", took)
	}
	if why := whyText(r, output.FirstLine); why != "" {
		f.Add("why", "%s", why)
	}
	if err := f.Write(out); err != nil || len(r.Steps) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	columns := []string{"STEP", "STATE", "ATTEMPT", "POD", "STARTED", "TOOK", "OUTPUT"}
	begins := slices.ContainsFunc(r.Steps, func(s troupe.StepStatus) bool { return !s.Child.IsZero() })
	if begins {
		columns = append(columns, "CHILD")
	}
	maps := slices.ContainsFunc(r.Steps, func(s troupe.StepStatus) bool { return s.Map.Items > 0 })
	if maps {
		columns = append(columns, "ELEMENTS")
	}
	table := output.NewTable(append(columns, "WHY")...)
	for i := range r.Steps {
		s := &r.Steps[i]
		cells := []string{
			s.Name, s.State.String(), attemptText(s), s.Pod, output.Stamp(s.StartedAt), tookText(s.StartedAt, s.FinishedAt), sizeText(s.OutputSize),
		}
		if begins {
			cells = append(cells, childText(s))
		}
		if maps {
			cells = append(cells, elementsText(&s.Map))
		}
		table.Add(append(cells, stepWhy(s))...)
	}
	if err := table.Write(out); err != nil || r.LeftOut == 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "and %s that the machine had started, and that ended before the last 100\n", output.Count(r.LeftOut, "other"))
	return err
}

// childText is the child run of a step; "": it has begun none.
func childText(s *troupe.StepStatus) string {
	if s.Child.IsZero() {
		return ""
	}
	return s.Child.String()
}

// stateText is the state of a run, and whether it was asked to stop.
func stateText(r *troupe.RunStatus) string {
	if r.Canceling && !r.State.Terminal() {
		return r.State.String() + ", canceling"
	}
	if r.CancelReason != "" && !r.State.Terminal() { // of a machine that handles a cancel
		return r.State.String() + ", asked to stop"
	}
	return r.State.String()
}

// whyText is what a run failed of, or was canceled for, as much of it as shown lets through.
func whyText(r *troupe.RunStatus, shown func(string) string) string {
	switch {
	case r.State == troupe.StateFailed && r.FailedStep != "":
		return r.FailedStep + ": " + failureText(r.Class, shown(r.Error))
	case r.CancelReason != "":
		return shown(r.CancelReason)
	}
	return ""
}

// failureText is an error with its class.
func failureText(class, text string) string {
	switch {
	case class == "":
		return text
	case text == "":
		return class
	}
	return class + ": " + text
}

// stepWhy is why a step stands where it does, as far as its row tells.
func stepWhy(s *troupe.StepStatus) string {
	switch {
	case s.Waiting != "" && !s.Child.IsZero(): // the id has a column of its own
		text, _, _ := strings.Cut(s.Waiting, " (troupe explain ")
		return strings.Replace(text, "waits for run "+s.Child.String()+" of", "waits for a run of", 1)
	case s.Waiting != "":
		return s.Waiting
	case s.Class != "" || s.Error != "":
		return failureText(s.Class, output.Error(s.Error))
	case !s.WakeAt.IsZero() && !s.State.Terminal():
		return "until " + output.Stamp(s.WakeAt)
	}
	return ""
}

// attemptText is how many attempts were begun, and lost with their pods.
func attemptText(s *troupe.StepStatus) string {
	if s.Losses > 0 {
		return fmt.Sprintf("%d, lost %d", s.Attempt, s.Losses)
	}
	if s.Attempt == 0 {
		return ""
	}
	return strconv.Itoa(s.Attempt)
}

// tookText is the time between two instants; "": one of them is still to come.
func tookText(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return explain.Span(to.Sub(from))
}

// sizeText is the size of a payload in bytes; "": there is none.
func sizeText(size int) string {
	if size < 0 {
		return ""
	}
	return strconv.Itoa(size) + " B"
}

// labelText is labels in the order of their names.
func labelText(labels map[string]string) string {
	var text []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text = append(text, name+"="+labels[name])
	}
	return strings.Join(text, ",")
}
