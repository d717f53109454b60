package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

func workflowsCommand(w world) *cobra.Command {
	f := &readFlags{}
	c := &cobra.Command{
		Use:   "workflows",
		Short: "List the workflows that are stored, and show their steps",
		Long: `Workflows that pods have registered: list them, and show their steps. A version is a
definition, known by its hash; runs keep the version that they began with.

With --json a command prints one object on one line, with --jsonl an object on
each line; docs/command.md of the project says which.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f.add(c)
	c.AddCommand(workflowsList(w, f), workflowsShow(w, f))
	return c
}

// versionWidth is how much of the hash of a definition is shown, in digits.
const versionWidth = 12

// stepsShown bounds how many steps a cell names.
const stepsShown = 3

// versionJSON is a stored definition as scripts get it.
type versionJSON struct {
	Workflow     string     `json:"workflow"`
	Definition   string     `json:"definition"`
	StepCount    int        `json:"step_count"`
	Unregistered []string   `json:"unregistered"`
	Steps        []stepJSON `json:"steps,omitempty"`
}

// stepJSON is a step of one.
type stepJSON struct {
	Name       string   `json:"name"`
	Parents    []string `json:"parents"`
	Queue      *string  `json:"queue"`
	Handler    *string  `json:"handler"`
	Sleeps     bool     `json:"sleeps"`
	SleepMS    *int64   `json:"sleep_ms"`    // null: until an instant that a step gives, or it is no sleep
	Signal     *string  `json:"signal"`      // that it waits for; null: it is no wait
	DeadlineMS *int64   `json:"deadline_ms"` // of the wait; null: it waits for ever
	SkipsLate  bool     `json:"skips_late"`  // at the deadline it is skipped; else it fails
	Child      *string  `json:"child"`       // the workflow whose runs it begins; null: it begins none
	Map        bool     `json:"map"`         // it executes its function for each element of a list
	OnFailure  bool     `json:"on_failure"`
}

func versionOf(v *troupe.WorkflowVersion) versionJSON {
	return versionJSON{
		Workflow: v.Workflow, Definition: v.Definition, StepCount: v.Steps, Unregistered: append([]string{}, v.Unregistered...),
	}
}

func workflowsList(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the versions of workflows that are stored", Args: noArguments,
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, _ []string) error {
			versions, err := reader.Workflows(ctx)
			if err != nil {
				return err
			}
			list := make([]versionJSON, len(versions))
			table := output.NewTable("WORKFLOW", "VERSION", "STEPS", "REGISTERED")
			for i := range versions {
				v := &versions[i]
				list[i] = versionOf(v)
				table.Add(v.Workflow, output.Short(v.Definition, versionWidth+1), strconv.Itoa(v.Steps), registeredText(v))
			}
			switch {
			case f.json:
				return output.Line(out, map[string][]versionJSON{"workflows": list})
			case f.lines:
				return output.Lines(out, list)
			}
			return table.Write(out)
		}),
	}
	return f.watched(f.inLines(f.inJSON(c)))
}

// registeredText says whether living pods can execute a version.
func registeredText(v *troupe.WorkflowVersion) string {
	if len(v.Unregistered) == 0 {
		return "by living pods"
	}
	names := v.Unregistered
	if len(names) > stepsShown {
		names = append(names[:stepsShown:stepsShown], fmt.Sprintf("%d more", len(v.Unregistered)-stepsShown))
	}
	return "no living pod has " + strings.Join(names, ", ")
}

func workflowsShow(w world, f *readFlags) *cobra.Command {
	version := ""
	c := &cobra.Command{
		Use: "show WORKFLOW", Short: "Show the steps of a workflow, version by version",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%s takes the name of one workflow, got %s: troupe workflows list shows names",
					c.CommandPath(), output.Count(len(args), "argument"))}
			}
			return nil
		},
		ValidArgsFunction: f.argument(w, workflowNames),
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error {
			versions, err := reader.Workflows(ctx)
			if err != nil {
				return err
			}
			list := []versionJSON{}
			for i := range versions {
				v := &versions[i]
				if v.Workflow != args[0] || !strings.HasPrefix(v.Definition, version) {
					continue
				}
				steps, err := reader.Steps(ctx, v.Definition)
				if err != nil {
					return err
				}
				list = append(list, versionOf(v))
				list[len(list)-1].Steps = stepsOf(steps)
			}
			switch {
			case len(list) == 0:
				return &notFoundError{fmt.Errorf("no workflow %q%s is stored in schema %s: a pod stores what it registers, troupe workflows list shows names",
					args[0], ofVersion(version), f.schema)}
			case f.json:
				return output.Line(out, map[string][]versionJSON{"workflows": list})
			}
			return printVersions(out, list)
		}),
	}
	c.Flags().StringVar(&version, "version", "", "only definitions whose hash begins with this")
	return f.inJSON(c)
}

func ofVersion(version string) string {
	if version == "" {
		return ""
	}
	return fmt.Sprintf(" of version %q", version)
}

func stepsOf(steps []troupe.WorkflowStep) []stepJSON {
	list := make([]stepJSON, len(steps))
	for i, s := range steps {
		list[i] = stepJSON{
			Name: s.Name, Parents: append([]string{}, s.Parents...), Queue: output.Optional(s.Queue), Handler: output.Optional(s.Handler),
			Sleeps: s.Sleeps, Child: output.Optional(s.Child), Map: s.Map, OnFailure: s.OnFailure,
		}
		if s.SleepFor > 0 {
			ms := s.SleepFor.Milliseconds()
			list[i].SleepMS = &ms
		}
		if list[i].Signal = output.Optional(s.Signal); s.Deadline > 0 && s.Signal != "" {
			ms := s.Deadline.Milliseconds()
			list[i].DeadlineMS = &ms
		}
		list[i].SkipsLate = s.SkipsLate
	}
	return list
}

func printVersions(out io.Writer, versions []versionJSON) error {
	for i, v := range versions {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		var f output.Fields
		f.Add("workflow", "%s", v.Workflow)
		f.Add("version", "%s", v.Definition)
		f.Add("registered", "%s", registeredText(&troupe.WorkflowVersion{Unregistered: v.Unregistered}))
		if err := f.Write(out); err != nil {
			return err
		}
		table := output.NewTable("STEP", "TAKES", "QUEUE", "KIND", "HANDLER")
		for _, s := range v.Steps {
			table.Add(s.Name, strings.Join(s.Parents, ", "), textOr(s.Queue), kindText(s), textOr(s.Handler))
		}
		if err := table.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func textOr(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func kindText(s stepJSON) string {
	switch {
	case s.OnFailure:
		return "on failure"
	case s.SleepMS != nil:
		return "sleep " + (time.Duration(*s.SleepMS) * time.Millisecond).String()
	case s.Sleeps:
		return "sleep until"
	case s.Child != nil:
		return "run of " + *s.Child
	case s.Map:
		return "map"
	case s.Signal != nil && s.DeadlineMS == nil:
		return "signal " + *s.Signal
	case s.Signal != nil:
		ends := map[bool]string{true: "skipped", false: "failed"}[s.SkipsLate]
		return fmt.Sprintf("signal %s, %s after %v", *s.Signal, ends, time.Duration(*s.DeadlineMS)*time.Millisecond)
	}
	return "function"
}
