package troupe

import (
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// WaitSignal declares a durable wait for a signal, whose value is the step's output. It begins
// when what it comes [After] has ended, at the start of the run if there is nothing, and takes
// the first signal of this name that no other step has taken, also one that came before. While it
// waits it is a row in the database: no slot, no process.
//
// It waits for ever unless [SkipAfter] or [FailAfter] says otherwise. The step completes with the
// signal, without a pod, unless conditions look at its output ([If], [Switch], [SkipIf],
// [SleepUntil]): then a pod reads it. A value that cannot be decoded into a T fails the step that
// reads it first, with class decoding. The run keeps signals for later steps of
// their name; those that no step takes end with it.
func WaitSignal[I, T any](b *Builder[I], name string, signal Signal[T], opts ...WaitOption) StepRef[T] {
	p := b.open()
	if p == nil {
		return StepRef[T]{}
	}
	s := p.step(workflow.Step{Name: name, Kind: workflow.Wait, Signal: signal.name, Type: reflect.TypeFor[T]().String()})
	s.Function.Result = reflect.TypeFor[T]()
	for i, option := range opts {
		if option == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyWait(s)
	}
	return StepRef[T]{at: place{plan: p, step: s.Add()}}
}

// SkipAfter bounds a wait: if no signal has been sent by then, the step is skipped. Steps that
// hold it by [Maybe] run all the same; see [RunIfAllSkipped] for one that has no other parent.
// A signal that was sent before the deadline counts, also if it is delivered after it.
func SkipAfter(limit time.Duration) WaitOption { return deadline(limit, true) }

// FailAfter bounds a wait: if no signal has been sent by then, the step fails, with class
// wait_timeout ([ErrWaitTimeout]). Steps that hold it by [Settled] run all the same.
func FailAfter(limit time.Duration) WaitOption { return deadline(limit, false) }

func deadline(limit time.Duration, skips bool) WaitOption {
	return waitOption(func(s *program.Step) {
		switch {
		case limit <= 0:
			s.Problem("deadline", fmt.Sprintf("%v is not a positive duration", limit), "give a positive duration, or wait for ever")
		case s.Sleep > 0 && s.SkipLate != skips:
			s.Problem("deadline", "the step has SkipAfter and FailAfter", "choose one")
		default:
			s.Sleep, s.SkipLate = limit, skips
		}
	})
}
