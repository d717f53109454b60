package explain

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

// ended explains how a run ended: by the steps that failed, or by what canceled it.
func (e *explainer) ended() []Reason {
	s, end := e.s, &e.s.End
	switch {
	case s.State == lifecycle.Failed && len(end.Failed) > 0:
		reasons := make([]Reason, len(end.Failed))
		for i := range end.Failed {
			reasons[i] = e.failed(&end.Failed[i])
		}
		return reasons
	case s.State == lifecycle.Canceled && end.CanceledBy+end.CancelReason != "":
		r := Reason{Cause: CauseCanceled, Text: "the run was canceled" + e.ago(), Since: end.At, By: end.CanceledBy, CancelReason: end.CancelReason}
		if r.By != "" {
			r.Text += ", by " + Short(r.By)
		}
		if r.CancelReason != "" {
			r.Text += ": " + Short(r.CancelReason)
		}
		if r.By == "parent" && !s.Parent.IsZero() {
			r.Run = s.Parent.String()
			r.Remedy = "troupe explain " + r.Run + " says how that run stands"
		}
		return []Reason{r}
	}
	return []Reason{{Cause: CauseEnded, Text: "the run has ended" + e.ago() + ": it is " + s.State.String(), Since: end.At}}
}

// failed explains a step that failed for good.
func (e *explainer) failed(f *Failed) Reason {
	at := f.At
	if at.IsZero() {
		at = e.s.End.At
	}
	r := Reason{
		Step: f.Name, Cause: CauseFailed, Text: "failed for good" + e.since(at), Since: at,
		Class: f.Class, Error: f.Error, Attempts: int(f.Attempts), Losses: int(f.Lost),
		Remedy: e.requeue(),
	}
	switch {
	case r.Attempts > 0:
		r.Text += ", after " + count(r.Attempts, "attempt")
	case r.Losses == 0 && r.Class != lifecycle.ClassWaitTimeout: // a wait makes no attempts
		r.Text += ", before its first attempt"
	}
	if r.Losses > 0 {
		r.Text += fmt.Sprintf(", lost %s with its pod", times(r.Losses))
	}
	if r.Class != "" {
		r.Text += ", with class " + Short(r.Class)
	}
	if r.Error != "" {
		r.Text += ": " + Short(r.Error)
	}
	if r.Class == lifecycle.ClassElementFailed {
		r.Remedy = fmt.Sprintf("troupe runs elements %v %s --state failed lists the elements; %s", e.s.Run, f.Name, r.Remedy)
	}
	if !f.RequeuedAs.IsZero() {
		r.Text += fmt.Sprintf("; requeued %s ago as run %v", Span(e.s.Now.Sub(f.RequeuedAt)), f.RequeuedAs)
		r.Remedy = fmt.Sprintf("troupe explain %v says how that run stands", f.RequeuedAs)
	}
	return r
}

// requeue says how a run that failed continues. A requeue of a child run alone tells its parent nothing.
func (e *explainer) requeue() string {
	if e.s.Parent.IsZero() {
		return fmt.Sprintf("once its cause is mended: troupe runs requeue %v continues the run as a new one", e.s.Run)
	}
	return fmt.Sprintf("once its cause is mended: troupe runs requeue %v, when that has ended, begins another run in place of this one;"+
		" or troupe runs requeue %v continues this one alone, and the parent does not hear of it", e.s.Parent, e.s.Run)
}

// ago says how long ago the run ended, if that is known.
func (e *explainer) ago() string { return e.since(e.s.End.At) }

// since says how long ago an instant is, if that is known.
func (e *explainer) since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " " + Span(max(e.s.Now.Sub(at), 0)) + " ago"
}
