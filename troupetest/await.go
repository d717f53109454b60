package troupetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe"
)

// AwaitMax is how long Await and AwaitFailure wait for the end of a run.
const AwaitMax = 30 * time.Second

// Await waits until a run has ended and returns its output. A run that ends otherwise,
// or not within AwaitMax, fails the test with its history.
func Await[O any](tb testing.TB, run *troupe.Run[O]) O {
	tb.Helper()
	output, err := await(tb, run)
	if err != nil {
		tb.Fatalf("troupetest: the run should have completed: %v\n%s", err, history(tb, run))
	}
	return output
}

// AwaitFailure waits until a run has failed or was canceled, and returns why. A run
// that completes, or does not end within AwaitMax, fails the test with its history.
func AwaitFailure[O any](tb testing.TB, run *troupe.Run[O]) *troupe.RunError {
	tb.Helper()
	_, err := await(tb, run)
	var end *troupe.RunError
	switch {
	case errors.As(err, &end):
		return end
	case err == nil:
		tb.Fatalf("troupetest: the run should have failed: it completed\n%s", history(tb, run))
	default:
		tb.Fatalf("troupetest: the run should have failed: %v\n%s", err, history(tb, run))
	}
	return nil
}

func await[O any](tb testing.TB, run *troupe.Run[O]) (O, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), AwaitMax, fmt.Errorf("it has not ended within %v", AwaitMax))
	defer cancel()
	return run.Await(ctx)
}

// historyMax bounds how long a failed test waits for its message.
const historyMax = 10 * time.Second

// history describes a run for people: its steps, why it does not move, and what has
// happened.
func history[O any](tb testing.TB, run *troupe.Run[O]) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), historyMax)
	defer cancel()
	status, err := run.Status(ctx)
	if err != nil {
		return fmt.Sprintf("its steps cannot be read: %v", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "run %v of workflow %q is %v\n", status.ID, status.Workflow, status.State)
	for i := range status.Steps {
		s := &status.Steps[i]
		fmt.Fprintf(&text, "  step %q is %v, attempts %d%s\n", s.Name, s.State, s.Attempt, said(s.Class, s.Error))
	}
	if !status.State.Terminal() {
		if reasons, err := run.Explain(ctx); err == nil {
			text.WriteString("what it waits for:\n")
			for _, r := range reasons {
				text.WriteString("  " + r.String() + "\n")
			}
		}
	}
	text.WriteString("events:\n")
	for event, err := range run.Events(ctx) {
		if err != nil {
			fmt.Fprintf(&text, "  they cannot be read: %v\n", err)
			break
		}
		name := "the run"
		if event.Step != "" {
			name = fmt.Sprintf("step %q", event.Step)
		}
		fmt.Fprintf(&text, "  %8.3f s  %s: %s%s%s\n", event.At.Sub(status.CreatedAt).Seconds(), name, event.Kind, attempt(event.Attempt),
			said(event.Class, event.Text))
	}
	return text.String()
}

func attempt(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

// said is an error, or the reason of a cancel.
func said(class, text string) string {
	switch {
	case class != "" && text != "":
		return fmt.Sprintf(" (%s: %s)", class, text)
	case text != "":
		return fmt.Sprintf(" (%s)", text)
	}
	return ""
}
