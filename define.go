package troupe

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// Workflow is a declared workflow with input I and output O. It is a value
// that never changes, safe for concurrent use, and may be registered with any
// number of engines.
type Workflow[I, O any] struct {
	name string
	plan *plan
}

var _ Definition[int, int] = (*Workflow[int, int])(nil)

// Define declares a workflow. It calls build once, at once; the step that
// build returns gives the run's output. The name is what callers trigger, and
// it stays with stored runs.
//
// Define does not fail: what is wrong with the workflow is reported by
// [Workflow.Validate] and by [Register].
func Define[I, O any](name string, build func(b *Builder[I]) StepRef[O], opts ...WorkflowOption) *Workflow[I, O] {
	p := newPlan(name, reflect.TypeFor[I]())
	for i, opt := range opts {
		if opt == nil {
			p.program.Problem("", fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		opt(&p.program)
	}
	var output StepRef[O]
	if build == nil {
		p.program.Problem("", "build", "the function is nil", "pass a function that declares the steps")
	} else {
		output = build(&Builder[I]{plan: p})
	}
	p.finish(output.at)
	return &Workflow[I, O]{name: name, plan: p}
}

// Name returns the name under which the workflow is triggered.
func (w *Workflow[I, O]) Name() string { return w.name }

// Validate reports everything that is wrong with the workflow at once, as a
// [*DefinitionError], or returns nil. Register does the same; calling it in a
// test finds mistakes without an engine.
func (w *Workflow[I, O]) Validate() error {
	problems := w.plan.program.Validate()
	if len(problems) == 0 {
		return nil
	}
	return &DefinitionError{Workflow: w.name, Problems: problems}
}

// Program is for the engine; see [Definition].
func (w *Workflow[I, O]) Program(*I, *O) program.Program { return w.plan.program }

// WorkflowOption is an option of [Define].
type WorkflowOption func(*program.Program)

// FailFast is the default: at the first failure that nothing handles, steps
// that have not started are canceled. Running ones finish, and steps that hold
// a parent by [Settled] still run when their parents have ended.
func FailFast() WorkflowOption {
	return func(p *program.Program) { p.Definition.Policy = workflow.FailFast }
}

// FinishSiblings lets a run go on after a failure: only the steps that depend
// on the failed one are canceled. The run fails once all others have ended.
func FinishSiblings() WorkflowOption {
	return func(p *program.Program) { p.Definition.Policy = workflow.FinishSiblings }
}

// RetentionClass says which field of [Retention] tells how long the runs of a
// workflow are kept once they have ended.
type RetentionClass = workflow.RetentionClass

// The classes of [Retain].
const (
	RetainStandard = workflow.RetainStandard // Retention.Standard, the default
	RetainShort    = workflow.RetainShort    // Retention.Short
	RetainLong     = workflow.RetainLong     // Retention.Long
	RetainForever  = workflow.RetainForever  // never removed
)

// Retain puts the runs of a workflow into a class of [Config].Retention. A
// workflow in another class is another version of it: runs stay in the class in
// which they were triggered.
func Retain(class RetentionClass) WorkflowOption {
	return func(p *program.Program) {
		if class >= workflow.RetentionClasses {
			p.Problem("", "Retain", fmt.Sprintf("there is no class %d", class),
				"use RetainStandard, RetainShort, RetainLong or RetainForever")
			return
		}
		p.Definition.Retention = class
	}
}

// Problem is one thing that is wrong with a workflow: the step, the field, how
// it is wrong and what to do about it.
type Problem = workflow.Problem //nolint:errname // it is one entry of a report, not a failure

// DefinitionError says everything that is wrong with a workflow.
type DefinitionError struct {
	Workflow string
	Problems []Problem // at least one
}

// Error lists the problems, one a line if there are several.
func (e *DefinitionError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d problems", len(e.Problems))
	for _, p := range e.Problems {
		text.WriteString("\n\t" + p.Error())
	}
	return text.String()
}

// Unwrap returns the problems.
func (e *DefinitionError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}
