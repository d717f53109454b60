package explain

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/lifecycle"
)

// openShown bounds how much of what a machine has open its line names.
const openShown = 3

// machine explains a machine that waits for its next entry: what it has open, and the signals that it
// hears.
func (e *explainer) machine(t *Task) Reason {
	r := Reason{Cause: CauseMachine, Since: t.Since}
	var parts []string
	open := int32(0)
	for i := range e.s.Tasks {
		s := &e.s.Tasks[i]
		if !s.Spawned {
			continue
		}
		if open++; open <= openShown {
			parts = append(parts, s.Name+" "+e.stands(s))
			r.On = append(r.On, s.Name)
		}
	}
	if more := open - openShown; more > 0 {
		parts = append(parts, number(more)+" more "+one(more, "is", "are")+" open")
	}
	if len(t.Hears) > 0 {
		parts = append(parts, "it hears "+list(t.Hears, len(t.Hears)))
	}
	switch {
	case len(parts) > 0:
		r.Text = "waits: " + strings.Join(parts, ", ")
	case !e.stops():
		return nothing("the machine has nothing open, hears no signals and has not ended")
	default:
		r.Text = "has nothing open and has not ended"
	}
	if !t.Since.IsZero() {
		r.Text += "; its last activation was " + Span(max(e.s.Now.Sub(t.Since), 0)) + " ago"
	}
	if e.stops() {
		r.Until = e.s.Fenced
		r.Text += "; it was asked to stop and may go on, and is canceled " + e.until(e.s.Fenced) + " unless it ends"
	}
	if open == 0 && len(t.Hears) > 0 {
		r.Remedy = fmt.Sprintf("troupe runs signal %v %s JSON sends it one", e.s.Run, t.Hears[0])
	}
	return r
}

// stops reports whether the run was asked to stop and its machine handles that.
func (e *explainer) stops() bool { return !e.s.Canceling && e.s.Fenced.After(e.s.Now) }

// stands says how something stands that a machine has started, behind its name.
func (e *explainer) stands(t *Task) string {
	switch t.State { //nolint:exhaustive // what else is open is in one of these
	case lifecycle.Running:
		for i := range e.s.Pods {
			if p := &e.s.Pods[i]; p.ID == t.Pod {
				return "runs on " + p.label()
			}
		}
		return "runs"
	case lifecycle.Sleeping:
		return "fires " + e.until(t.Timer)
	case lifecycle.Backoff:
		return "is tried again " + e.until(t.Timer)
	case lifecycle.Waiting:
		return fmt.Sprintf("waits for run %v", t.Child.Run)
	}
	if t.Parked {
		return "is parked"
	}
	return "is queued"
}

// otherProgram is the remedy of a machine whose activation fails because another program made what it
// finds, or nothing.
func otherProgram(class string) string {
	switch class {
	case lifecycle.ClassStateVersion:
		return "deploy the program that knows this version of the state, or one that declares Version with a migrate for it"
	case lifecycle.ClassUnknownEntry:
		return "deploy a program that declares it, or the one that did"
	}
	return ""
}
