package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

func runsState(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "state RUN", Short: "Print the state of the run of a state machine, and what it has open", Args: oneRun,
		Long: `Prints the state of a state machine as its last activation left it, also of a run that
has ended: of one that failed, the state before the activation that failed. A state that
is no JSON, because the codec of the program writes something else, is printed in base64.

With --json the fields version, state, handled, arrived and started, and open: the names
of the activities, timers and child runs that have not ended.`,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, args []string) error {
			machine, err := reader.Machine(ctx, f.tenant, runArg(args))
			if err != nil {
				return err
			}
			run, err := reader.Run(ctx, f.tenant, runArg(args))
			if err != nil {
				return err
			}
			return f.printState(out, &machine, &run)
		}),
	}
	return f.watched(f.inJSON(f.ofTenant(c, w)))
}

// printState prints how far a machine has come.
func (f *readFlags) printState(out io.Writer, m *troupe.MachineStatus, r *troupe.RunStatus) error {
	open := []string{} // no null for none
	for i := range r.Steps {
		if s := &r.Steps[i]; i > 0 && !s.State.Terminal() {
			open = append(open, s.Name)
		}
	}
	if f.json {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		if m.Version > 0 {
			object["state"] = stateJSON(text)
		}
		object["open"] = open
		return output.Line(out, object)
	}
	var fields output.Fields
	fields.Add("run", "%v", r.ID)
	fields.Add("workflow", "%s", r.Workflow)
	fields.Add("run state", "%s", stateText(r))
	fields.Add("version", "%d", m.Version)
	fields.Add("entries", "%s", entriesText(m))
	fields.Add("started", "%d", m.Started)
	fields.Add("open", "%s", namesText(open))
	fields.Add("state", "%s", machineState(m))
	return fields.Write(out)
}

// stateJSON is the field state of a machine in JSON, with all the digits of its numbers.
func stateJSON(machine []byte) json.RawMessage {
	var form struct {
		State json.RawMessage `json:"state"`
	}
	if json.Unmarshal(machine, &form) != nil || form.State == nil {
		return json.RawMessage("null")
	}
	return form.State
}

// entriesText is how many entries of its inbox a machine has handled.
func entriesText(m *troupe.MachineStatus) string {
	if waiting := m.Arrived - m.Handled; waiting > 0 {
		return fmt.Sprintf("%d handled, up to %d wait", m.Handled, waiting)
	}
	return fmt.Sprintf("%d handled", m.Handled)
}

// openShown bounds how many names of what a machine has open are printed.
const openShown = 20

func namesText(open []string) string {
	if len(open) == 0 {
		return "nothing"
	}
	text := strings.Join(open[:min(len(open), openShown)], ", ")
	if more := len(open) - openShown; more > 0 {
		text += fmt.Sprintf(" and %d more (troupe runs show)", more)
	}
	return text
}

// machineState is the state as it is printed.
func machineState(m *troupe.MachineStatus) string {
	switch {
	case m.Version == 0:
		return "none yet: no activation is stored"
	case json.Valid(m.State) && utf8.Valid(m.State):
		return string(m.State)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(m.State)
}

func runsReplay(w world, f *readFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "replay RUN", Short: "Write what is kept of the run of a state machine, so that its program can replay it", Args: oneRun,
		Long: `Writes the history of a state machine to standard output: the state from which on
entries are kept, the entries that it has handled since, and the state that is stored. It
is JSON, an object for each thousand entries, on a line each; docs/json.md has the form.

This command does not replay it: the handlers are in your program. Keep the output in a
file, and let a test of the program call them:

	file, _ := os.Open("testdata/order.jsonl")
	err := machine.ReplayHistory(file, nil)

It fails if the handlers decide something else than they did, with the entry and the
difference. The file has the inputs, outputs, signals and states of the run.`,
		ValidArgsFunction: f.argument(w, runIDs),
		RunE: f.read(w, func(ctx context.Context, reader *troupe.Reader, args []string) error {
			return writeHistory(w.out, func(after int64) (troupe.MachineHistory, error) {
				return reader.MachineHistory(ctx, f.tenant, runArg(args), after)
			})
		}),
	}
	return f.ofTenant(c, w)
}

// writeHistory writes the pages of a history, a line each.
func writeHistory(out io.Writer, read func(after int64) (troupe.MachineHistory, error)) error {
	for after := int64(0); ; {
		page, err := read(after)
		if err != nil {
			return err
		}
		if err := output.Line(out, page); err != nil {
			return err
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}
