package troupe

import (
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// Child declares a step that runs another workflow: it triggers a run with the output of a parent
// as its input, waits for it, and has its output. While it waits it is a row in the database: no
// slot, no process. Register that workflow with the same engine. To give it the input of the run,
// or a part of that, declare a step that returns it. docs/child-runs.md has the rest.
//
// The child run has the tenant, the labels and the queue of its parent. If it fails or is canceled,
// the step fails, with [ErrChildFailed] or [ErrChildCanceled]: a failure is retried by the steps of
// the child. If it completes without an output, because the step that gives it was skipped, the
// step is skipped. When the step is canceled, because its run is or because another step failed,
// the child run is asked to stop, unless [AbandonChild] says otherwise. At most 32 runs may be
// nested.
//
// A run that continues this one after a failure ([Engine.DeadLetters]) begins another child run,
// whose steps have the same idempotency keys.
func Child[I, CI, CO any](b *Builder[I], name string, child Definition[CI, CO], input Parent[CI], opts ...ChildOption) StepRef[CO] {
	p := b.open()
	if p == nil {
		return StepRef[CO]{}
	}
	s := p.step(workflow.Step{Name: name, Kind: workflow.ChildRun, Type: fmt.Sprintf("func(%v) %v", reflect.TypeFor[CI](), reflect.TypeFor[CO]())})
	s.Function.Result = reflect.TypeFor[CO]()
	if to, ok := edge(s, "input", input); ok {
		s.Parents = append(s.Parents, to)
	}
	if v := reflect.ValueOf(child); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		s.Problem("workflow", "the workflow is nil", "make one with Define, before this one")
	} else {
		of := child.Program(nil, nil)
		s.BeginsRunsOf(&of)
	}
	s.Function.Input = func(codec actors.Codec, in actors.Inputs) (any, error) {
		args := &arguments{codec: codec, outcomes: in.Parents, once: in.Once}
		value := argument(args, 0, input)
		return value, args.err
	}
	for i, option := range opts {
		if option == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyChild(s)
	}
	return StepRef[CO]{at: place{plan: p, step: s.Add()}}
}

// AbandonChild lets the child run continue when the step that waits for it is canceled.
func AbandonChild() ChildOption {
	return childOption(func(s *program.Step) { s.Child.Abandons = true })
}

type childOption func(s *program.Step)

func (o childOption) ApplyChild(s *program.Step) { o(s) }
