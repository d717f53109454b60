package statemachine

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// Complete ends an activity or a child run with its output, which is of the type that it returns. It
// may be one that the machine has canceled: it completed before it heard of that.
func (t *Test[S, O]) Complete(id string, output any) {
	a := t.take("Complete", id, t.stopping)
	as := t.declare[a.Step].Result
	is := reflect.TypeOf(output)
	switch {
	case is == nil && nilable(as), is != nil && is.AssignableTo(as):
	default:
		panic(fmt.Sprintf("statemachine: Complete(%q): %s gives a value of type %v, and the output is of type %T", id, a.Step, as, output))
	}
	payload, err := program.Encode(troupe.JSON{}, output)
	if err != nil {
		panic(fmt.Sprintf("statemachine: Complete(%q): encode the output of type %T: %v", id, output, err))
	}
	t.close(id)
	t.deliver(persistence.MachineEntry{Kind: persistence.EntryCompleted, Name: id, Payload: payload})
}

// Fail ends an activity or a child run with an error, for good: after its last attempt.
// [troupe.Class] gives the error the class that the machine sees.
func (t *Test[S, O]) Fail(id string, err error) {
	t.take("Fail", id, nil)
	if err == nil {
		panic(fmt.Sprintf("statemachine: Fail(%q): the error is nil", id))
	}
	t.close(id)
	t.deliver(persistence.MachineEntry{
		Kind: persistence.EntryFailed, Name: id, Class: actors.ErrorClass(err), Error: lifecycle.CleanText(err.Error()),
	})
}

// Fire moves the clock to the instant of a timer, and lets it fire, behind those that are due before.
func (t *Test[S, O]) Fire(id string) {
	a := t.take("Fire", id, nil)
	for t.isOpen(id) {
		if !t.next(later(t.now, a.At)) {
			return // it was canceled on the way
		}
	}
}

// Advance moves the clock on, and lets the timers fire that are due on the way, in their order: those
// that the machine starts meanwhile, too. A machine that was asked to stop is canceled when its time
// is over.
func (t *Test[S, O]) Advance(by time.Duration) {
	if by < 0 {
		panic(fmt.Sprintf("statemachine: Advance(%v): the clock does not go back", by))
	}
	t.check("Advance")
	until := t.now.Add(by)
	var started []Action
	var canceled []string
	for !t.ended && t.next(until) {
		started, canceled = append(started, t.started...), append(canceled, t.cancels...)
	}
	t.started, t.cancels = started, canceled
	t.now = until
}

// Cancel asks the machine to stop, as [troupe.Run.Cancel] does. One without OnCancel ends at once, and
// so does one that was asked before.
func (t *Test[S, O]) Cancel(reason string) {
	t.check("Cancel")
	if t.within == 0 || !t.cancelBy.IsZero() {
		t.stop(reason)
		return
	}
	t.cancelBy = t.now.Add(t.within)
	t.deliver(persistence.MachineEntry{Kind: persistence.EntryCancel, Error: lifecycle.CleanText(reason)})
}

// SendTo sends a signal to the machine of a test. The machine has declared it with [OnSignal].
func SendTo[S, O, T any](t *Test[S, O], signal troupe.Signal[T], value T) {
	name := signal.Name()
	t.check(fmt.Sprintf("SendTo of %q", name))
	f := t.declare[name]
	if !t.signals[name] {
		panic(fmt.Sprintf("statemachine: SendTo of %q: the machine does not hear this signal: declare it with OnSignal", name))
	}
	if as := reflect.TypeFor[T](); f.Result != as {
		panic(fmt.Sprintf("statemachine: SendTo of %q: the machine hears values of type %v, and this is one of type %v", name, f.Result, as))
	}
	payload, err := program.Encode(troupe.JSON{}, value)
	if err != nil {
		panic(fmt.Sprintf("statemachine: SendTo of %q: encode the value of type %T: %v", name, value, err))
	}
	t.deliver(persistence.MachineEntry{Kind: persistence.EntrySignal, Name: name, Payload: payload})
}

// check panics if the machine has ended.
func (t *Test[S, O]) check(what string) {
	if t.ended {
		panic(fmt.Sprintf("statemachine: %s: the machine has ended: %s", what, cmp.Or(text(t.failure), "it completed")))
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// take returns what is open under an id, or among others, and can end in that way.
func (t *Test[S, O]) take(how, id string, others []Action) Action {
	call := fmt.Sprintf("%s(%q)", how, id)
	t.check(call)
	all := slices.Concat(t.open, others)
	at := slices.IndexFunc(all, func(a Action) bool { return a.ID == id })
	if at < 0 {
		panic(fmt.Sprintf("statemachine: %s: nothing is open under this id: %s", call, t.openText()))
	}
	switch a := all[at]; {
	case a.Kind == "timer" && how != "Fire":
		panic(fmt.Sprintf("statemachine: %s: it is a timer: use Fire or Advance", call))
	case a.Kind != "timer" && how == "Fire":
		panic(fmt.Sprintf("statemachine: %s: it is no timer: use Complete or Fail", call))
	default:
		return a
	}
}

// openText says what is open.
func (t *Test[S, O]) openText() string {
	if len(t.open) == 0 {
		return "nothing is"
	}
	var ids []string
	for _, a := range t.open[:min(len(t.open), openShown)] {
		ids = append(ids, a.ID)
	}
	text := "open are " + strings.Join(ids, ", ")
	if more := len(t.open) - openShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// openShown bounds how many ids a text names.
const openShown = 20

func (t *Test[S, O]) isOpen(id string) bool {
	return slices.ContainsFunc(t.open, func(a Action) bool { return a.ID == id })
}

// close takes something out of what is open, or may complete all the same.
func (t *Test[S, O]) close(id string) {
	is := func(a Action) bool { return a.ID == id }
	t.open, t.stopping = slices.DeleteFunc(t.open, is), slices.DeleteFunc(t.stopping, is)
}

// next lets the next timer fire that is due until an instant, or the time of a machine end that was
// asked to stop. It reports whether there was one.
func (t *Test[S, O]) next(until time.Time) bool {
	var due *Action
	for i := range t.open {
		if a := &t.open[i]; a.Kind == "timer" && !a.At.After(until) && (due == nil || a.At.Before(due.At)) {
			due = a
		}
	}
	if by := t.cancelBy; !by.IsZero() && !by.After(until) && (due == nil || by.Before(due.At)) {
		t.now = later(t.now, by)
		t.stop(fmt.Sprintf("the machine did not end within %v of the cancel", t.within))
		return true
	}
	if due == nil {
		return false
	}
	t.now = later(t.now, due.At)
	id := due.ID
	t.close(id)
	t.deliver(persistence.MachineEntry{Kind: persistence.EntryFired, Name: id})
	return true
}

// stop cancels the machine.
func (t *Test[S, O]) stop(reason string) {
	t.started, t.cancels = nil, nil
	t.end(troupe.StateCanceled, "", errors.New(cmp.Or(reason, "it was asked to stop")))
}

// deliver lets the machine handle an event.
func (t *Test[S, O]) deliver(e persistence.MachineEntry) {
	e.N, e.At = t.machine.Taken+1, t.now
	t.activate(&e)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// nilable reports whether a value of the type may be nil.
func nilable(of reflect.Type) bool {
	switch of.Kind() { //nolint:exhaustive // values of the others have a zero value of their own
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	}
	return false
}
