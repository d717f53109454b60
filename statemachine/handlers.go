package statemachine

import (
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// Result is what [OnCompleted] takes for results of type Out: an [ActivityRef] or a [ChildRef].
type Result[Out any] interface {
	Startable
	gives(*Out)
}

func (ActivityRef[In, Out]) gives(*Out) {}
func (ChildRef[CI, CO]) gives(*CO)      {}

// Startable is what a machine has declared and may start: an [ActivityRef], a [ChildRef] or a
// [TimerRef].
type Startable interface{ of() ref }

// OnCompleted declares what the machine does with the result of an activity, or the output of a
// child run; a.ID says which one it is. Without it the machine does not hear of the result.
func OnCompleted[I, S, O, Out any](b *Builder[I, S, O], of Result[Out], fn func(a *Activation[S, O], out Out)) {
	p, h := b.handlersOf("OnCompleted", of)
	if h == nil {
		return
	}
	name := of.of().name
	p.once(name, "OnCompleted", fn == nil, h.completed != nil)
	h.completed = func(a *Activation[S, O], codec actors.Codec, payload []byte) error {
		decoder := program.ParentCodec(codec, a.ID)
		if h.kind == workflow.ChildRun {
			decoder = program.OutputCodec(codec, h.output)
		}
		out, err := program.Decode[Out](decoder, payload)
		if err != nil {
			return decoding("the output of "+a.ID, reflect.TypeFor[Out](), err)
		}
		fn(a, out)
		return nil
	}
}

// OnFailed declares what the machine does when an activity has failed for good, or a child run has
// not completed; a.ID says which one it is. Without it the machine fails with it.
func (b *Builder[I, S, O]) OnFailed(of Startable, fn func(a *Activation[S, O], why *troupe.StepError)) {
	p, h := b.handlersOf("OnFailed", of)
	if h == nil {
		return
	}
	if h.kind == workflow.SleepUntil {
		p.program.Problem(of.of().name, "OnFailed", "a timer does not fail", "leave it out")
	}
	p.once(of.of().name, "OnFailed", fn == nil, h.failed != nil)
	h.failed = fn
}

// OnTimer declares what the machine does when a timer fires; a.ID says which one it is.
func (b *Builder[I, S, O]) OnTimer(timer TimerRef, fn func(a *Activation[S, O])) {
	p, h := b.handlersOf("OnTimer", timer)
	if h == nil {
		return
	}
	p.once(timer.name, "OnTimer", fn == nil, h.fired != nil)
	h.fired = fn
}

// OnSignal declares a signal that the machine hears, and what it does with its value. A value that
// cannot be decoded into a T is left out by the third attempt of the activation: the run has an
// event signal_refused, which says why.
func OnSignal[I, S, O, T any](b *Builder[I, S, O], signal troupe.Signal[T], fn func(a *Activation[S, O], value T)) {
	p := b.open()
	if p == nil {
		return
	}
	name := signal.Name()
	p.once(name, "OnSignal", fn == nil, p.signals[name] != nil)
	if p.signals[name] == nil {
		s := &program.Step{Of: &p.program, Step: workflow.Step{
			Name: name, Kind: workflow.Wait, Signal: name, Spawned: true, Type: reflect.TypeFor[T]().String(),
		}}
		s.Function.Result = reflect.TypeFor[T]()
		s.Add()
	}
	of := workflow.OutputOf{Workflow: p.program.Definition.Name, Step: name, Signal: true}
	p.signals[name] = func(a *Activation[S, O], codec actors.Codec, payload []byte) error {
		value, err := program.Decode[T](program.OutputCodec(codec, of), payload)
		if err != nil {
			return decoding(fmt.Sprintf("the signal %q", name), reflect.TypeFor[T](), err)
		}
		fn(a, value)
		return nil
	}
}

// handlersOf returns the handlers of what the machine has declared, or nil.
func (b *Builder[I, S, O]) handlersOf(field string, of Startable) (*plan[I, S, O], *handlers[S, O]) {
	p := b.open()
	if p == nil {
		return nil, nil
	}
	if of == nil || of.of().machine == nil {
		p.program.Problem("", field, "the ref is empty", "pass what Activity, Child or Timer of this machine returned")
		return p, nil
	}
	if of.of().machine != &p.program {
		p.program.Problem(of.of().name, field, "the ref belongs to another machine", "declare it in this machine, too")
		return p, nil
	}
	return p, p.started[of.of().name]
}

// decoding is the error of stored bytes that the program cannot read.
func decoding(what string, as reflect.Type, err error) error {
	return troupe.Class(classDecoding, fmt.Errorf("decode %s into %v: %w", what, as, err))
}
