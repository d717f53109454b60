package actors

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/lifecycle"
)

// failure is the reported part of an attempt's error. It is made on the goroutine of the
// step function: methods of the embedder's errors, and its retry rule, may hang, panic or
// end their goroutine.
type failure struct {
	class string
	text  string
	retry bool   // another attempt may help
	crash *crash // nil: it is no panic
}

// crash is a panic of a step function.
type crash struct {
	value  string // its text
	frames string // of the embedder, one a line; see panics.Frames
}

// panicOf is the failure of a step function that panicked. However long the text of the
// value is, there is room for the frames.
func panicOf(value any, frames string) *failure {
	c := &crash{value: short(panics.Text(value), lifecycle.TextMax/2), frames: frames}
	text := "panic: " + c.value
	if frames != "" {
		text += "\n" + frames
	}
	return &failure{class: classPanic, text: lifecycle.CleanText(text), retry: true, crash: c}
}

// failureOf examines the error of a step function. worth is the embedder's retry rule;
// nil: every error may be retried.
func failureOf(err error, worth func(error) bool) *failure {
	f := &failure{class: ErrorClass(err), text: errorText(err)}
	f.retry = !IsTerminal(err) && (worth == nil || worth(err))
	return f
}

// errorText is the stored text of an embedder's error. Its Error method may panic, and
// return more text than fits into memory in every slot.
func errorText(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = lifecycle.CleanText(fmt.Sprintf("error of type %T, whose Error method panicked: %s", err, panics.Text(r)))
		}
	}()
	return lifecycle.CleanText(err.Error())
}

// errGoexit is the error of an attempt whose function ended its goroutine.
var errGoexit = errors.New("step function called runtime.Goexit")

// Classes of errors that the engine itself finds.
const (
	classPanic    = "panic"
	classTimedOut = "timed_out"
	classTooLarge = lifecycle.ClassTooLarge
	classCanceled = "canceled"
	classConflict = "conflict"    // the transaction of the step was rolled back too often
	classTxBroken = "transaction" // its connection broke too often, or the step has ended it
	classWrap     = "wrap"        // Config.Wrap did not execute the step, or not as it must
)

func tooLarge(what string, size, limit int) error {
	return Terminal(WithClass(classTooLarge, fmt.Errorf(
		"the %s has %d bytes, the limit is %d: store it elsewhere and pass a reference", what, size, limit)))
}

// resultsTooLarge is the error of a map whose results do not fit into one output.
func resultsTooLarge(of string, size, limit int) error {
	return Terminal(WithClass(classTooLarge, fmt.Errorf(
		"the results of %s have %d bytes together, the limit is %d: return references to results that are stored elsewhere, "+
			"or raise Config.PayloadLimit and requeue the run, which keeps the elements that have completed", of, size, limit)))
}

// short is the beginning of a text.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
