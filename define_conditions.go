package troupe

import (
	"fmt"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// If looks at the output of a step, or at the input, and returns the options
// of two branches: steps with then run if holds returns true, steps with
// otherwise if it does not, and the rest is skipped. On a step that did not
// complete both branches are skipped.
//
// holds is called once per run, where the step was executed. A panic in it
// fails the steps of both branches.
func If[T any](source Source[T], holds func(T) bool) (then, otherwise EdgeOption) {
	at := sourceOf(source)
	n := at.plan.decide("If", at, predicate(at, "If", holds))
	return condition{at, workflow.Condition{Kind: workflow.Then, Ref: at.step, Decision: n}},
		condition{at, workflow.Condition{Kind: workflow.Otherwise, Ref: at.step, Decision: n}}
}

// SkipIf looks at the output of a step, or at the input, and skips the steps
// that have this option if skip returns true. Several on one step: any of them
// skips it. On a step that did not complete it says nothing.
func SkipIf[T any](source Source[T], skip func(T) bool) EdgeOption {
	at := sourceOf(source)
	n := at.plan.decide("SkipIf", at, predicate(at, "SkipIf", skip))
	return condition{at, workflow.Condition{Kind: workflow.SkipIf, Ref: at.step, Decision: n}}
}

// Switch looks at the output of a step, or at the input, and selects one of
// the branches that [Branches.Case] and [Branches.Default] give. All others
// are skipped; without a match and without a default, all are.
func Switch[T any, K ~string](source Source[T], selector func(T) K) *Branches[K] {
	at := sourceOf(source)
	if selector == nil {
		at.plan.nilFunction(at, "Switch")
	}
	b := &Branches[K]{at: at}
	b.decision = at.plan.decide("Switch", at, func(value any) (ruling, error) {
		typed, _ := value.(T)
		return ruling{selected: string(selector(typed))}, nil
	})
	return b
}

// Branches are the branches of a [Switch].
type Branches[K ~string] struct {
	at         place
	decision   int
	hasDefault bool
}

// Case returns the option of the branch for value. Call it once per value and
// give the option to every step of the branch.
func (b *Branches[K]) Case(value K) EdgeOption {
	if d := b.open(); d != nil {
		if d.cases[string(value)] {
			b.at.plan.program.Problem("", "switch", fmt.Sprintf("%s declares case %q twice", d.label, value), branchRemedy)
		}
		d.cases[string(value)] = true
	}
	return condition{b.at, workflow.Condition{Kind: workflow.Case, Ref: b.at.step, Decision: b.decision, Case: string(value)}}
}

// Default returns the option of the branch for all other values. Call it once.
func (b *Branches[K]) Default() EdgeOption {
	if d := b.open(); d != nil {
		if b.hasDefault {
			b.at.plan.program.Problem("", "switch", d.label+" declares its default twice", branchRemedy)
		}
		b.hasDefault = true
	}
	return condition{b.at, workflow.Condition{Kind: workflow.Default, Ref: b.at.step, Decision: b.decision}}
}

const branchRemedy = "declare it once and give the option to every step of the branch"

// open returns the decision while branches may be added to it, else nil.
func (b *Branches[K]) open() *decision {
	if b.at.plan == nil || b.at.plan.finished {
		return nil
	}
	return b.at.plan.decisions[b.decision]
}

// condition is the option of one branch.
type condition struct {
	at        place
	condition workflow.Condition
}

func (c condition) ApplyStep(s *program.Step) {
	if text, remedy := foreign(s.Of, c.at); text != "" {
		s.Problem(fmt.Sprintf("conditions[%d]", len(s.Conditions)), text, remedy)
		return
	}
	s.Conditions = append(s.Conditions, c.condition)
}

func (c condition) ApplyWait(s *program.Step)  { c.ApplyStep(s) }
func (c condition) ApplyChild(s *program.Step) { c.ApplyStep(s) }
func (c condition) ApplyMap(s *program.Step)   { c.ApplyStep(s) }

func (condition) IsEdgeOption() {}
func (condition) IsMapOption()  {}

func predicate[T any](at place, what string, holds func(T) bool) func(any) (ruling, error) {
	if holds == nil {
		at.plan.nilFunction(at, what)
	}
	return func(value any) (ruling, error) {
		typed, _ := value.(T) // a nil interface is T's zero value
		return ruling{holds: holds(typed)}, nil
	}
}

// sourceOf returns the empty place for a nil source, which is reported where
// the decision is used.
func sourceOf[T any](source Source[T]) place {
	if source == nil {
		return place{}
	}
	return source.looksAt(nil)
}

func (p *plan) nilFunction(at place, what string) {
	if p != nil && !p.finished {
		p.program.Problem("", "conditions", fmt.Sprintf("the function of %s on %s is nil", what, p.nameOf(at.step)), "pass a function")
	}
}

// nameOf returns a step as problems and error texts call it.
func (p *plan) nameOf(step int) string {
	if step == workflow.Input {
		return "the input"
	}
	return fmt.Sprintf("%q", p.program.Definition.Steps[step].Name)
}
