package actors

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// failure is what is reported of the error of an attempt. It is made on the
// goroutine of the step function: methods of the embedder's errors, and its
// rule for retries, may hang, panic or end the goroutine that calls them.
type failure struct {
	class string
	text  string
	retry bool // another attempt may help
}

// failureOf looks at the error of a step function. worth is the embedder's rule
// for retries; nil: every error is worth one.
func failureOf(err error, worth func(error) bool) *failure {
	f := &failure{class: ErrorClass(err), text: errorText(err)}
	f.retry = !IsTerminal(err) && (worth == nil || worth(err))
	return f
}

// errorText is the text of an error of the embedder's as it is kept. Its Error
// method may panic, and say more than there is memory for in every slot.
func errorText(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = lifecycle.CleanText(fmt.Sprintf("error of type %T, whose Error method panicked: %s", err, panics.Text(r)))
		}
	}()
	return lifecycle.CleanText(err.Error())
}

// panicked is the end of an attempt by a panic, while the stack is still there. That of the
// store says that the function has ended its transaction.
func panicked(value any) *attemptEnded {
	if value == any(persistence.ErrTxEnded) {
		return endedByStep(persistence.ErrTxEnded)
	}
	return &attemptEnded{failed: &failure{
		class: classPanic, text: lifecycle.CleanText(fmt.Sprintf("panic: %s\n%s", panics.Text(value), debug.Stack())), retry: true,
	}}
}

// errGoexit is the error of an attempt whose function ended its goroutine.
var errGoexit = errors.New("step function called runtime.Goexit")
