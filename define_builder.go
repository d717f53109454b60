package troupe

import (
	"context"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// onFailureStep is the name of the failure handler's task in statuses and
// events.
const onFailureStep = "on-failure"

// Builder collects the steps of a workflow with input I, for as long as the
// function given to [Define] runs. It is not safe for concurrent use.
type Builder[I any] struct{ plan *plan }

// Input returns a ref of the run's input. [If], [Switch], [SkipIf] and
// [SleepUntil] take it; their decisions are stored with the trigger. Triggering
// calls their functions and waits for them; no context interrupts one.
// Steps get the input anyway, as their first parameter after the context.
func (b *Builder[I]) Input() InputRef[I] {
	return InputRef[I]{at: place{plan: b.open(), step: workflow.Input}}
}

// OnFailure declares what happens once a run has failed and everything else of
// it has ended: fn gets the input and every step that failed, the first one
// first. It runs as a durable task: one attempt unless [Retry] says otherwise,
// and again if its process dies. Canceled runs have none. [Completed] reads what
// steps returned that had completed before the failure.
func (b *Builder[I]) OnFailure(fn func(ctx context.Context, in I, failed []*StepError) error, opts ...FunctionOption) {
	p := b.open()
	if p == nil {
		return
	}
	s := p.step(workflow.Step{Name: onFailureStep, Kind: workflow.Func, Type: reflect.TypeOf(fn).String()})
	if fn == nil {
		s.Problem("function", "the function is nil", "pass the step's function")
	}
	if p.program.Definition.OnFailure != nil {
		s.Problem("", "OnFailure is declared twice", "declare one that does both")
	}
	apply(s, opts)
	s.Function.Call = func(ctx context.Context, codec actors.Codec, in actors.Inputs) ([]byte, any, error) {
		input, err := program.DecodeInput[I](codec, in)
		if err != nil {
			return nil, nil, err
		}
		failed := make([]*StepError, len(in.Failed))
		for i, outcome := range in.Failed {
			failed[i] = &StepError{Step: outcome.Step, Class: outcome.Class, Text: outcome.Error}
		}
		return nil, nil, fn(ctx, input, failed)
	}
	p.program.Definition.OnFailure, p.program.OnFailure = &s.Step, s.Function
}

// open returns the plan while it may be changed, else nil.
func (b *Builder[I]) open() *plan {
	if b == nil || b.plan == nil || b.plan.finished {
		return nil
	}
	return b.plan
}

// plan is a program while its steps and decisions are declared. Nothing changes
// it after finish.
type plan struct {
	program   program.Program
	decisions []*decision // by their number in the definition
	wakes     map[int]int // SleepUntil step: its decision
	finished  bool
}

// place is where a ref points: a step, or the input, of one plan.
type place struct {
	plan *plan
	step int
}

// outputOf returns as what the output of the step at a place is encoded.
func (at place) outputOf() workflow.OutputOf {
	if at.plan == nil || at.step < 0 || at.step >= len(at.plan.program.Definition.Steps) {
		return workflow.OutputOf{}
	}
	d := &at.plan.program.Definition
	return d.Steps[at.step].OutputOf(d.Name)
}

func newPlan(name string, input reflect.Type) *plan {
	return &plan{
		program: program.Program{
			Definition: workflow.Definition{Name: name, InputType: input.String(), Policy: workflow.FailFast},
			Input:      input,
		},
		wakes: map[int]int{},
	}
}

// finish ends the declaration and hangs every decision on the step whose
// output it looks at.
func (p *plan) finish(output place) {
	p.finished = true
	d := &p.program.Definition
	d.Output = output.step
	if text, remedy := foreign(&p.program, output); text != "" {
		d.Output = -1
		if len(d.Steps) > 0 {
			p.program.Problem("", "output", text, remedy)
		}
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		for _, c := range s.Conditions {
			p.decisions[c.Decision].hang(s.Name, c)
		}
		if n, ok := p.wakes[i]; ok {
			p.decisions[n].hang(s.Name, workflow.Condition{})
		}
	}
	on := map[int][]*decision{}
	for _, d := range p.decisions {
		if len(d.hangs) > 0 {
			on[d.ref] = append(on[d.ref], d)
		}
	}
	for step, decisions := range on {
		if step == workflow.Input {
			p.program.Admit = func(in any) ([]persistence.EdgeResult, error) { return rule(decisions, in), nil }
			continue
		}
		p.program.Functions[step].Decide = func(value any) []persistence.EdgeResult { return rule(decisions, value) }
	}
}

// step begins the declaration of a step.
func (p *plan) step(declared workflow.Step) *program.Step {
	return &program.Step{Step: declared, Of: &p.program}
}

// apply applies the options of a step.
func apply[T StepOption](s *program.Step, options []T) {
	for i, option := range options {
		if any(option) == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyStep(s)
	}
}

// edge returns the edge from a step to a dependency; ok is false if it cannot be
// used, which is reported.
func edge(s *program.Step, field string, to Dependency) (e workflow.Edge, ok bool) {
	if to == nil {
		s.Problem(field, "the ref is nil", "pass what a declaration of this workflow returned")
		return workflow.Edge{}, false
	}
	l := to.link()
	if text, remedy := foreign(s.Of, l.at); text != "" {
		s.Problem(field, text, remedy)
		return workflow.Edge{}, false
	}
	return workflow.Edge{Parent: l.at.step, Kind: l.kind}, true
}

// foreign says what is wrong with a ref that is not of this program.
func foreign(of *program.Program, at place) (text, remedy string) {
	switch {
	case at.plan == nil:
		return "the ref is empty", "pass what Step0, Sleep or another declaration of this workflow returned"
	case &at.plan.program == of:
		return "", ""
	}
	return fmt.Sprintf("the ref belongs to another workflow, %q", at.plan.program.Definition.Name),
		"declare the step in this workflow, too"
}
