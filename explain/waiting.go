package explain

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
)

// waiting explains a step that waits for a signal, for its child run, for its elements, or a machine that waits.
func (e *explainer) waiting(t *Task) Reason {
	switch {
	case t.Machine:
		return e.machine(t)
	case !t.Child.Run.IsZero():
		return e.child(t)
	case t.Map.Items > 0:
		return elements(t)
	case t.Sent:
		return e.undelivered(t)
	}
	if !t.Timer.IsZero() && !t.Timer.After(e.s.Now) {
		return e.late("the deadline of its wait", t.Timer)
	}
	r := Reason{
		Cause: CauseSignal, Text: fmt.Sprintf("waits for the signal %q", t.Signal), Since: t.Since, Until: t.Timer,
		Remedy: fmt.Sprintf("troupe runs signal %v %s JSON sends it", e.s.Run, t.Signal),
	}
	if !t.Since.IsZero() {
		r.Text += " since " + Span(max(e.s.Now.Sub(t.Since), 0))
	}
	switch {
	case t.Timer.IsZero():
	case t.SkipLate:
		r.Text += ", skipped " + e.until(t.Timer)
	default:
		r.Text += ", fails " + e.until(t.Timer)
	}
	return r
}

// elements explains a map that waits for its elements. If too many have failed it
// begins no others, and says so in place of how many have not begun.
func elements(t *Task) Reason {
	m := &t.Map
	r := Reason{
		Cause: CauseElements, Since: t.Since,
		Text: fmt.Sprintf("waits for its elements: %s of %s %s open", number(m.Open), number(m.Items), one(m.Open, "is", "are")),
	}
	if m.Running > 0 {
		r.Text += fmt.Sprintf(", of which %s %s", number(m.Running), one(m.Running, "runs", "run"))
	}
	if t.Class == lifecycle.ClassElementFailed {
		r.Text += "; then it fails, and no others begin: " + Short(t.Error)
		return r
	}
	if m.Left > 0 {
		r.Text += fmt.Sprintf("; %s %s not begun", number(m.Left), one(m.Left, "has", "have"))
	}
	if m.Failed > 0 {
		r.Text += fmt.Sprintf("; %s %s failed", number(m.Failed), one(m.Failed, "has", "have"))
	}
	return r
}

// child explains a step that waits for its child run.
func (e *explainer) child(t *Task) Reason {
	c := &t.Child
	id := c.Run.String()
	text := fmt.Sprintf("waits for run %s of workflow %s", id, c.Workflow)
	r := Reason{
		Cause: CauseChild, Text: text, Run: id, Since: t.Since,
		Remedy: fmt.Sprintf("troupe explain %s says how that run stands", id),
	}
	since := ""
	if !c.Since.IsZero() {
		since = " for " + Span(max(e.s.Now.Sub(c.Since), 0))
	}
	switch c.State { //nolint:exhaustive // the others are endings
	case lifecycle.Running:
		r.Text += ", running" + since
	case lifecycle.Pending:
		r.Text += ", which has not begun" + since
	default:
		r = e.unheard(text+", whose end", t)
		r.Run = id
	}
	return r
}

// undelivered explains a step whose signal is there, and was not delivered to the run.
func (e *explainer) undelivered(t *Task) Reason {
	return e.unheard(fmt.Sprintf("waits for the signal %q, which was sent and", t.Signal), t)
}

// unheard explains a step to which the intake has not brought what it waits for.
func (e *explainer) unheard(text string, t *Task) Reason {
	switch {
	case len(e.s.Locks) > 0:
		return e.locked()
	case len(e.living()) == 0:
		return e.noPod()
	}
	return Reason{
		Cause: CauseIntake, Text: text + " is not delivered", Since: t.Since, Until: t.Timer,
		Remedy: "pods deliver it within seconds; if they do not, look at /readyz of the pods",
	}
}

// older returns the pods that were not declared dead and do not know the workflow of the run.
func (e *explainer) older() []*Pod {
	var pods []*Pod
	for i := range e.s.Pods {
		if p := &e.s.Pods[i]; !p.Dead && p.Protocol < e.s.Protocol {
			pods = append(pods, p)
		}
	}
	return pods
}

// heldBack explains a run that such pods keep from beginning.
func (e *explainer) heldBack() Reason {
	var names []string
	pods := e.older()
	for _, p := range pods {
		names = append(names, p.label())
	}
	slices.Sort(names)
	return Reason{
		Cause: CauseOlderPods, Pod: names[0],
		Text:   "it begins when pods of an older version have left, which do not know its workflow: " + list(names, parentsShown),
		Remedy: "replace these pods by pods of this version",
	}
}
