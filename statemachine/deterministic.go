package statemachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// outcome is what an activation gives.
type outcome struct {
	decided *persistence.Activation
	output  any
	done    bool
	err     error
}

// difference says what two executions of one activation differ in; "": in nothing. States and inputs
// are compared as they were encoded, with a codec that gives equal values the same bytes.
func difference(a, b outcome) string {
	switch {
	case text(a.err) != text(b.err) || actors.ErrorClass(a.err) != actors.ErrorClass(b.err):
		return fmt.Sprintf("the errors %q and %q", text(a.err), text(b.err))
	case a.err != nil:
		return ""
	case a.done != b.done:
		return "an end, and none"
	}
	if differs := changed("state", a.decided.State, b.decided.State); differs != "" {
		return differs
	}
	if a.done {
		first, err := json.Marshal(a.output)
		second, again := json.Marshal(b.output)
		if err == nil && again == nil {
			return changed("output", first, second)
		}
		return ""
	}
	return differentActions(a.decided, b.decided)
}

// differentActions says what two activations differ in that start and cancel something.
func differentActions(a, b *persistence.Activation) string {
	if x, y := started(a), started(b); !slices.Equal(x, y) {
		return fmt.Sprintf("different things to start: %v and %v", x, y)
	}
	for i := range a.Start {
		x, y := &a.Start[i], &b.Start[i]
		if !x.WakeAt.Equal(y.WakeAt) {
			return fmt.Sprintf("two instants for the timer %q: %v and %v", x.Step, x.WakeAt, y.WakeAt)
		}
		if differs := changed(fmt.Sprintf("input of %q", x.Step), x.Input, y.Input); differs != "" {
			return differs
		}
	}
	if !slices.Equal(a.Cancel, b.Cancel) {
		return fmt.Sprintf("different things to cancel: the %v that it has started, and %v", a.Cancel, b.Cancel)
	}
	return ""
}

// started names what an activation starts.
func started(a *persistence.Activation) (list []string) {
	for _, s := range a.Start {
		list = append(list, s.Step)
	}
	return list
}

// changed says where two encoded values differ; "": nowhere.
func changed(what string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return fmt.Sprintf("another %s: %d and %d bytes that are not the same", what, len(a), len(b))
	}
	path, first, second := firstDifference("", x, y)
	return fmt.Sprintf("another %s: %s%s and %s", what, path, shown(first), shown(second))
}

// firstDifference returns where two values of JSON differ first, and as what.
func firstDifference(path string, a, b any) (at string, first, second any) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, key := range keysOf(x, y) {
			one, in := x[key]
			other, also := y[key]
			if in && also && equal(one, other) {
				continue
			}
			return firstDifference(path+"."+key, missingIf(!in, one), missingIf(!also, other))
		}
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			if !equal(x[i], y[i]) {
				return firstDifference(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
			}
		}
	}
	if path != "" {
		path += " is "
	}
	return path, a, b
}

// missing stands for a key that one of two objects does not have.
type missing struct{}

func missingIf(is bool, value any) any {
	if is {
		return missing{}
	}
	return value
}

// keysOf returns the keys of two objects, in order.
func keysOf(a, b map[string]any) []string {
	var keys []string
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func equal(a, b any) bool {
	x, err := json.Marshal(a)
	y, again := json.Marshal(b)
	return err == nil && again == nil && bytes.Equal(x, y)
}

// shownMax bounds how much of a value a text shows, in bytes.
const shownMax = 200

func shown(value any) string {
	if _, is := value.(missing); is {
		return "missing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > shownMax {
		return string(bytes.ToValidUTF8(text[:shownMax], nil)) + "…"
	}
	return string(text)
}

// handlerOf names the handler of an entry, as it was declared; nil: OnStart.
func handlerOf(about *program.Program, e *persistence.MachineEntry) string {
	if e == nil {
		return "OnStart"
	}
	of, _ := lifecycle.SpawnedAs(e.Name)
	switch e.Kind {
	case persistence.EntryCancel:
		return "OnCancel"
	case persistence.EntrySignal:
		return fmt.Sprintf("OnSignal of %q", e.Name)
	case persistence.EntryFired:
		return fmt.Sprintf("OnTimer of %q", of)
	case persistence.EntryFailed:
		return fmt.Sprintf("OnFailed of %q", of)
	case persistence.EntryCompleted:
	}
	for i := range about.Definition.Steps {
		if s := &about.Definition.Steps[i]; s.Name == of && s.Kind == workflow.ChildRun {
			return fmt.Sprintf("OnCompleted of the child run %q", of)
		}
	}
	return fmt.Sprintf("OnCompleted of %q", of)
}
