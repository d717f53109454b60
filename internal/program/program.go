// Package program is what a front end makes and an engine runs: a workflow
// without its Go types. The root's Define is a front end, and other packages of
// this module may be. It is internal, so that embedders cannot be one.
package program

import (
	"context"
	"reflect"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Program is a declared workflow: its graph, the functions of its steps, how it
// admits an input, and which step's output is the run's. Nothing changes it once
// it is declared; any number of engines may run it.
type Program struct {
	Definition workflow.Definition // an Output of -1 is explained by Problems
	Functions  []Function          // one for each step of the definition; of a sleep it is empty, of a wait and a child run it has no Call, of a map it is that of an element, of a machine it has none
	OnFailure  Function            // of Definition.OnFailure
	Problems   []workflow.Problem  // found while it was declared

	// Input is the type that the input of a run is decoded into.
	Input reflect.Type
	// Admit judges a decoded input and makes the decisions that look at it. Nil:
	// every input is admitted, and no decision looks at it.
	Admit func(input any) ([]persistence.EdgeResult, error)
}

// Function executes the tasks of one step.
type Function struct {
	Retry   bool             // the step's retry policy counts, not the engine's
	RetryIf func(error) bool // which errors are worth another attempt; nil: all but terminal ones
	Result  reflect.Type     // of the value that Call returns, of the signal that the step waits for, or of the output of the child run; nil: there is none

	// Call decodes the inputs, calls the embedder's function and encodes its
	// result. It returns the result both encoded and as a value. A panic fails the
	// attempt.
	Call func(ctx context.Context, codec actors.Codec, in actors.Inputs) (payload []byte, value any, err error)

	// Decide makes the decisions that look at the result. Nil: there are none.
	Decide func(value any) []persistence.EdgeResult

	// Child is the program of the run that a step of kind ChildRun begins, and Input decodes its
	// input from the output of the step's parent. Such a step has no Call.
	Child *Program
	Input func(codec actors.Codec, in actors.Inputs) (any, error)

	// Map is what a step of kind Map does beside executing Call for each element.
	Map *Map

	// Machine is what a step of kind Machine does, in place of Call.
	Machine *Machine

	// Spawn is the type of the input that a machine gives to the step, which Call, or Input of a
	// child run, decodes with [DecodeSpawned]; nil: a machine does not start it.
	Spawn reflect.Type
}

// Step is a step while its options are applied.
type Step struct {
	workflow.Step

	Function Function
	Of       *Program // the program that declares it
}

// Problem notes what is wrong with the step.
func (s *Step) Problem(field, text, remedy string) { s.Of.Problem(s.Name, field, text, remedy) }

// Problem notes what is wrong with a step, or with the program: "".
func (p *Program) Problem(step, field, text, remedy string) {
	if len(p.Problems) < workflow.ProblemsMax {
		p.Problems = append(p.Problems, workflow.Problem{Step: step, Field: field, Text: text, Remedy: remedy})
	}
}

// Add adds a step to the program that declares it, and returns its index.
func (s *Step) Add() int {
	p := s.Of
	p.Definition.Steps = append(p.Definition.Steps, s.Step)
	p.Functions = append(p.Functions, s.Function)
	return len(p.Functions) - 1
}

// Validate returns everything that is wrong with the program.
func (p *Program) Validate() []workflow.Problem {
	problems := append([]workflow.Problem{}, p.Problems...)
	for _, problem := range workflow.Problems(p.Definition.Validate()) {
		noted := func(is workflow.Problem) bool { return is.Step == problem.Step && is.Field == problem.Field }
		if problem.Field == "output" && p.Definition.Output < 0 || problem.Step != "" && slices.ContainsFunc(p.Problems, noted) {
			continue // noted already, with the reason
		}
		problems = append(problems, problem)
	}
	return problems
}
