package troupe

import (
	"context"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/workflow"
)

// onFailureStep is the name of the failure handler's task in statuses and
// events.
const onFailureStep = "on-failure"

// Builder collects the steps of a workflow with input I, for as long as the
// function given to [Define] runs. It is not safe for concurrent use.
type Builder[I any] struct{ plan *plan }

// Input returns a ref of the run's input. [If], [Switch], [SkipIf] and
// [SleepUntil] take it; what they decide is stored with the trigger. They are called
// by whoever triggers, who waits for them: no context ends one that does not return.
// Steps get the input anyway, as their first parameter after the context.
func (b *Builder[I]) Input() InputRef[I] {
	return InputRef[I]{at: place{plan: b.open(), step: workflow.Input}}
}

// OnFailure declares what happens once a run has failed and everything else of
// it has ended: fn gets the input and every step that failed, the first one
// first. It runs as a durable task: one attempt unless [Retry] says otherwise,
// and again if its process dies. Canceled runs have none.
func (b *Builder[I]) OnFailure(fn func(ctx context.Context, in I, failed []*StepError) error, opts ...FunctionOption) {
	p := b.open()
	if p == nil {
		return
	}
	d := &draft{plan: p, step: workflow.Step{
		Name: onFailureStep, Kind: workflow.Func, Type: reflect.TypeOf(fn).String(),
	}}
	if fn == nil {
		d.problem("function", "the function is nil", "pass the step's function")
	}
	if p.definition.OnFailure != nil {
		d.problem("", "OnFailure is declared twice", "declare one that does both")
	}
	for i, opt := range opts {
		if d.present(opt != nil, i) {
			opt.applyStep(d)
		}
	}
	p.definition.OnFailure = &d.step
	p.handler = stepFunction{retry: d.retry, retryIf: d.retryIf, call: func(ctx context.Context, codec Codec, in actors.Inputs) ([]byte, any, error) {
		input, err := decodeInput[I](codec, in)
		if err != nil {
			return nil, nil, err
		}
		failed := make([]*StepError, len(in.Failed))
		for i, outcome := range in.Failed {
			failed[i] = &StepError{Step: outcome.Step, Class: outcome.Class, Text: outcome.Error}
		}
		return nil, nil, fn(ctx, input, failed)
	}}
}

// open returns the plan while it may be changed, else nil.
func (b *Builder[I]) open() *plan {
	if b == nil || b.plan == nil || b.plan.finished {
		return nil
	}
	return b.plan
}

// plan is a workflow without its Go types: the definition, and the functions
// that belong to it. Nothing changes it after finish.
type plan struct {
	definition workflow.Definition
	functions  []stepFunction      // one per step; sleeps have none
	handler    stepFunction        // of OnFailure
	decisions  []*decision         // by their number in the definition
	wakes      map[int]int         // SleepUntil step: its decision
	on         map[int][]*decision // by the step, or the input, that they look at
	problems   []Problem
	badOutput  bool
	finished   bool
}

// stepFunction is the typed half of one step.
type stepFunction struct {
	retry   bool // the step has a Retry of its own
	retryIf func(error) bool
	result  reflect.Type // of call; nil: none
	call    func(ctx context.Context, codec Codec, in actors.Inputs) (payload []byte, value any, err error)
}

// place is where a ref points: a step, or the input, of one plan.
type place struct {
	plan *plan
	step int
}

func newPlan(name, inputType string) *plan {
	return &plan{
		definition: workflow.Definition{Name: name, InputType: inputType, Policy: workflow.FailFast},
		wakes:      map[int]int{},
		on:         map[int][]*decision{},
	}
}

func (p *plan) problem(step, field, text, remedy string) {
	if len(p.problems) < workflow.ProblemsMax {
		p.problems = append(p.problems, Problem{Step: step, Field: field, Text: text, Remedy: remedy})
	}
}

// finish ends the declaration and hangs every decision on the step whose
// output it looks at.
func (p *plan) finish(output place) {
	p.finished = true
	p.definition.Output = output.step
	if text, remedy := p.foreign(output); text != "" {
		p.definition.Output = -1
		p.badOutput = true
		if len(p.definition.Steps) > 0 {
			p.problem("", "output", text, remedy)
		}
	}
	for i := range p.definition.Steps {
		s := &p.definition.Steps[i]
		for _, c := range s.Conditions {
			p.decisions[c.Decision].hang(s.Name, c)
		}
		if n, ok := p.wakes[i]; ok {
			p.decisions[n].hang(s.Name, workflow.Condition{})
		}
	}
	for _, d := range p.decisions {
		if len(d.hangs) > 0 {
			p.on[d.ref] = append(p.on[d.ref], d)
		}
	}
}

// foreign says what is wrong with a ref that is not of this plan.
func (p *plan) foreign(at place) (text, remedy string) {
	switch at.plan {
	case p:
		return "", ""
	case nil:
		return "the ref is empty", "pass what Step0, Sleep or another declaration of this workflow returned"
	}
	return fmt.Sprintf("the ref belongs to another workflow, %q", at.plan.definition.Name),
		"declare the step in this workflow, too"
}

// draft is one step while its options are applied.
type draft struct {
	plan    *plan
	step    workflow.Step
	retry   bool
	retryIf func(error) bool
}

func (d *draft) problem(field, text, remedy string) {
	d.plan.problem(d.step.Name, field, text, remedy)
}

func (d *draft) present(is bool, option int) bool {
	if !is {
		d.problem(fmt.Sprintf("options[%d]", option), "the option is nil", "leave it out")
	}
	return is
}

// edge returns the edge to a dependency; ok is false if it cannot be used,
// which is reported.
func (d *draft) edge(field string, to Dependency) (workflow.Edge, bool) {
	if to == nil {
		d.problem(field, "the ref is nil", "pass what a declaration of this workflow returned")
		return workflow.Edge{}, false
	}
	l := to.link()
	if text, remedy := d.plan.foreign(l.at); text != "" {
		d.problem(field, text, remedy)
		return workflow.Edge{}, false
	}
	return workflow.Edge{Parent: l.at.step, Kind: l.kind}, true
}

// add puts the step into the plan and returns where it is.
func (d *draft) add(fn stepFunction) place {
	at := place{plan: d.plan, step: len(d.plan.definition.Steps)}
	fn.retry, fn.retryIf = d.retry, d.retryIf
	d.plan.definition.Steps = append(d.plan.definition.Steps, d.step)
	d.plan.functions = append(d.plan.functions, fn)
	return at
}
