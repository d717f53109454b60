package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// check says what is wrong with the call before anything is tried, and reads the input.
func (t *triggerFlags) check(c *cobra.Command, w world, f *readFlags, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return &usageError{fmt.Errorf("%s takes the name of one workflow, got %s: troupe workflows list shows names",
			c.CommandPath(), output.Count(len(args), "argument"))}
	}
	for _, name := range []string{"key", "version", "queue", "at", "tenant"} {
		if flag := c.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return &usageError{fmt.Errorf("--%s is empty: give it a value, or leave it out", name)} // an unset variable of a script
		}
	}
	if t.version != "" && strings.Trim(t.version, "0123456789abcdef") != "" {
		return &usageError{fmt.Errorf("--version is %.80q: use the hexadecimal digits that troupe workflows list shows", t.version)}
	}
	at, err := startOf(t.at)
	if err == nil {
		err = checkRun(args[0], f.tenant, t.key, t.queue, t.labels, at)
	}
	if err == nil {
		if !c.Flags().Changed("input") {
			return &usageError{errors.New("trigger needs --input: JSON, @file, or - for standard input; null if the workflow takes nothing")}
		}
		t.payload, err = readPayload(w, "--input", t.input, t.raw)
	}
	if err != nil {
		return &usageError{err}
	}
	t.options = []troupe.TriggerOption{troupe.Key(t.key), troupe.OnQueue(t.queue), troupe.Labels(t.labels), troupe.At(at)}
	return nil
}

// readPayload returns an input, or the value of a signal: JSON, @file, or - for standard
// input. No program judges it here, so all that can be known without one is checked: its
// size, and that it is JSON.
func readPayload(w world, name, text string, raw bool) ([]byte, error) {
	values, err := environment.Read(w.environ)
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(values.Config.PayloadLimit, payloadLimit)
	payload := []byte(text)
	if file, is := strings.CutPrefix(text, "@"); is || text == "-" {
		if payload, err = read(cmp.Or(file, text), w.in, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case len(payload) > limit:
		return nil, fmt.Errorf("%s has more than %d bytes: pass a reference, or set TROUPE_PAYLOAD_LIMIT to what the pods have", name, limit)
	case raw:
		return payload, nil
	}
	var compact bytes.Buffer // as the default codec writes it: with --key inputs are compared
	if err := json.Compact(&compact, payload); err != nil {
		return nil, fmt.Errorf("%s is not JSON, which the default codec writes (%w): mend it, or add --raw if the program has a codec of its own", name, err)
	}
	return compact.Bytes(), nil
}

// triggeredJSON is what became of a trigger, as scripts get it.
type triggeredJSON struct {
	Run      string  `json:"run"`
	Existing bool    `json:"existing"`
	State    *string `json:"state"`  // null without --wait
	Output   any     `json:"output"` // null: none, or not waited for
	Error    *string `json:"error"`  // null: the run did not fail, and was not canceled
}

func (t *triggerFlags) trigger(ctx context.Context, w world, f *readFlags, operator *troupe.Operator, name string) error {
	tenant := cmp.Or(f.tenant, f.config.DefaultTenant)
	done, err := operator.Trigger(ctx, name, t.version, t.payload, append(t.options, troupe.Tenant(tenant))...)
	if err != nil {
		return triggerWords(err, name)
	}
	said := triggeredJSON{Run: done.Run.String(), Existing: done.Existing}
	if !f.json {
		text := "triggered run %v\n"
		if done.Existing {
			text = "run %v has this key, and was triggered before\n"
		}
		if _, err := fmt.Fprintf(w.out, text, done.Run); err != nil {
			return err
		}
	}
	if !t.wait {
		if f.json {
			return output.Line(w.out, said)
		}
		return nil
	}
	var payload []byte
	ended := output.Follow(ctx, awaitFirst, awaitLast, func() (_, over bool, err error) {
		payload, over, err = operator.Output(ctx, "", done.Run)
		return false, over, err
	})
	return said.print(ctx, w, f, payload, ended)
}

// print says how the run ended.
func (said *triggeredJSON) print(ctx context.Context, w world, f *readFlags, payload []byte, ended error) error {
	var end *troupe.RunError
	state := troupe.StateCompleted
	switch {
	case errors.As(ended, &end):
		state, said.Error = end.State, output.Optional(end.Error())
		if errors.Is(ended, troupe.ErrNoOutput) {
			ended, said.Error = nil, nil // it completed
		}
	case ended != nil || ctx.Err() != nil:
		return ended
	}
	if f.json {
		said.State, said.Output = output.Optional(state.String()), output.Payload(payload)
		return errors.Join(output.Line(w.out, said), ended)
	}
	if ended != nil {
		return ended
	}
	text := "without an output"
	if payload != nil {
		text = output.Plain(string(payload))
	}
	_, err := fmt.Fprintf(w.out, "completed: %s\n", text)
	return err
}

// triggerWords rewords what the library says about its arguments, of which the command has
// flags.
func triggerWords(err error, name string) error {
	var refused *troupe.TriggerError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Code == troupe.UnknownWorkflow:
		return &notFoundError{err}
	case refused.Field == "version":
		return &usageError{fmt.Errorf("%w, with --version: troupe workflows show %s shows how they differ", err, output.Plain(name))}
	}
	return err
}
