package statemachine

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// step is the name of the machine itself in statuses, events and dead letters.
const step = "machine"

// Machine is a declared state machine with input I, state S and output O. It is a value that never
// changes, safe for concurrent use, and may be registered with any number of engines, as a
// [troupe.Workflow] is.
type Machine[I, S, O any] struct {
	name string
	plan *plan[I, S, O]
}

var _ troupe.Definition[int, int] = (*Machine[int, int, int])(nil)

// Builder collects what a machine declares, for as long as the function given to [Define] runs. It
// is not safe for concurrent use.
type Builder[I, S, O any] struct{ plan *plan[I, S, O] }

// plan is a machine while it is declared. Nothing changes it after that.
type plan[I, S, O any] struct {
	program  program.Program
	finished bool
	version  int
	migrate  func(from int, decode func(into any) error) (S, error)
	start    func(a *Activation[S, O], in I)
	cancel   func(a *Activation[S, O], reason string)
	started  map[string]*handlers[S, O] // by the name of an activity, a timer or a child
	signals  map[string]func(a *Activation[S, O], codec actors.Codec, payload []byte) error
}

// handlers are what a machine does when something ends that it has started.
type handlers[S, O any] struct {
	kind      workflow.StepKind
	output    workflow.OutputOf // of a child: as what its output is encoded
	completed func(a *Activation[S, O], codec actors.Codec, payload []byte) error
	failed    func(a *Activation[S, O], why *troupe.StepError)
	fired     func(a *Activation[S, O])
}

// Define declares a state machine. It calls build once, at once. The name is what callers trigger,
// and it stays with stored runs.
//
// Define does not fail: what is wrong with the machine is reported by [Machine.Validate] and by
// [troupe.Register]. The name "machine" is taken by the machine itself, and each activity, timer,
// child and signal has a name of its own.
func Define[I, S, O any](name string, build func(m *Builder[I, S, O]), options ...troupe.WorkflowOption) *Machine[I, S, O] {
	p := &plan[I, S, O]{
		program: program.Program{
			Definition: workflow.Definition{Name: name, InputType: reflect.TypeFor[I]().String(), Policy: workflow.FailFast},
			Input:      reflect.TypeFor[I](),
		},
		version: 1, started: map[string]*handlers[S, O]{}, signals: map[string]func(*Activation[S, O], actors.Codec, []byte) error{},
	}
	for i, option := range options {
		if option == nil {
			p.program.Problem("", fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option(&p.program)
	}
	machine := &program.Step{Of: &p.program, Step: workflow.Step{
		Name: step, Kind: workflow.Machine, Version: 1,
		Type: fmt.Sprintf("machine(%v) %v", reflect.TypeFor[I](), reflect.TypeFor[O]()), // the state has versions
		Options: workflow.Options{
			AttemptTimeout: activationTimeout,
			Retry:          workflow.RetryPolicy{Attempts: 10, First: time.Second, Factor: 2, Cap: time.Minute, Jitter: 0.1},
		},
	}}
	machine.Function.Retry, machine.Function.Result = true, reflect.TypeFor[O]()
	machine.Function.Machine = &program.Machine{State: reflect.TypeFor[S](), Activate: p.activate}
	machine.Add()
	if build == nil {
		p.program.Problem("", "build", "the function is nil", "pass a function that declares what the machine does")
	} else {
		build(&Builder[I, S, O]{plan: p})
	}
	p.finish()
	return &Machine[I, S, O]{name: name, plan: p}
}

// activationTimeout is how long the handlers of one activation may take together. They compute, and
// do not wait.
const activationTimeout = 10 * time.Second

// finish ends the declaration.
func (p *plan[I, S, O]) finish() {
	p.finished = true
	if p.start == nil {
		p.program.Problem(step, "OnStart", "the machine has no OnStart", "declare what it does with the input")
	}
	for i := range p.program.Definition.Steps {
		s := &p.program.Definition.Steps[i]
		if h := p.started[s.Name]; h != nil && h.kind == workflow.SleepUntil && h.fired == nil {
			p.program.Problem(s.Name, "OnTimer", "nothing happens when the timer fires", "declare it with OnTimer, or leave the timer out")
		}
	}
}

// Name returns the name under which the machine is triggered.
func (m *Machine[I, S, O]) Name() string { return m.name }

// Validate reports everything that is wrong with the machine at once, as a
// [*troupe.DefinitionError], or returns nil.
func (m *Machine[I, S, O]) Validate() error {
	if problems := m.plan.program.Validate(); len(problems) > 0 {
		return &troupe.DefinitionError{Workflow: m.name, Problems: problems}
	}
	return nil
}

// Program is for the engine; see [troupe.Definition].
func (m *Machine[I, S, O]) Program(*I, *O) program.Program { return m.plan.program }

// open returns the plan while it may be changed, else nil.
func (b *Builder[I, S, O]) open() *plan[I, S, O] {
	if b == nil || b.plan == nil || b.plan.finished {
		return nil
	}
	return b.plan
}

// OnStart declares what the machine does first: it gets the input of the run, and sets a.State.
// Each machine has one.
func (b *Builder[I, S, O]) OnStart(fn func(a *Activation[S, O], in I)) {
	p := b.open()
	if p == nil {
		return
	}
	p.once(step, "OnStart", fn == nil, p.start != nil)
	p.start = fn
}

// OnCancel lets the machine hear of a cancel of its run, with its reason: it may clean up, and ends
// with Complete or Fail. If it has not ended within that time, the run is canceled; a second cancel,
// ten seconds later or more,
// does so at once. Without OnCancel a cancel ends the machine and all that it has started.
func (b *Builder[I, S, O]) OnCancel(within time.Duration, fn func(a *Activation[S, O], reason string)) {
	p := b.open()
	if p == nil {
		return
	}
	p.once(step, "OnCancel", fn == nil, p.cancel != nil)
	if within <= 0 {
		p.program.Problem(step, "OnCancel", fmt.Sprintf("%v is not a positive duration", within), "say how long the machine may continue after a cancel")
	}
	p.cancel, p.program.Definition.Steps[0].Sleep = fn, within
}

// Version numbers the form of the state, from 1, which is the default. migrate makes a state of an
// older version into one of this: decode reads the stored state into a value of the type that it
// had. Machines of older versions go on with this program, and from their next activation on older
// programs leave them alone. docs/state-machines.md says when a change needs a version.
func (b *Builder[I, S, O]) Version(n int, migrate func(from int, decode func(into any) error) (S, error)) {
	p := b.open()
	if p == nil {
		return
	}
	p.once(step, "Version", migrate == nil && n > 1, p.migrate != nil)
	p.version, p.migrate = n, migrate
	p.program.Definition.Steps[0].Version = int32(min(max(n, -1), workflow.VersionMax+1))
}

// once notes what is wrong with a declaration that is made once, with a function.
func (p *plan[I, S, O]) once(of, field string, none, again bool) {
	switch {
	case none:
		p.program.Problem(of, field, "the function is nil", "pass one")
	case again:
		p.program.Problem(of, field, field+" is declared twice", "declare one that does both")
	}
}

// ActivityRef starts an activity that [Activity] has declared.
type ActivityRef[In, Out any] struct{ ref }

// Activity declares a function that the machine may start, any number of times, also at once. It
// runs as a durable task with all that a step of a [troupe.Workflow] has: [troupe.Task] names it,
// [troupe.Heartbeat] keeps progress, and the options say how it is tried. Without [troupe.Retry] it
// has 5 attempts, the second one a second after the first, then twice as long each time, up to a
// minute, give or take a tenth.
func Activity[I, S, O, In, Out any](
	b *Builder[I, S, O], name string, fn func(ctx context.Context, in In) (Out, error), options ...troupe.FunctionOption,
) ActivityRef[In, Out] {
	p := b.open()
	if p == nil {
		return ActivityRef[In, Out]{}
	}
	s := &program.Step{Of: &p.program, Step: workflow.Step{
		Name: name, Kind: workflow.Func, Spawned: true, Type: reflect.TypeOf(fn).String(),
		Options: workflow.Options{Retry: DefaultRetry()},
	}}
	s.Function.Retry, s.Function.Result, s.Function.Spawn = true, reflect.TypeFor[Out](), reflect.TypeFor[In]()
	if fn == nil {
		s.Problem("function", "the function is nil", "pass the function of the activity")
	}
	s.Function.Call = func(ctx context.Context, codec actors.Codec, in actors.Inputs) ([]byte, any, error) {
		input, err := program.DecodeSpawned[In](codec, in)
		if err != nil {
			return nil, nil, err
		}
		out, err := fn(ctx, input)
		if err != nil {
			return nil, nil, err
		}
		payload, err := program.EncodeOutput(codec, out)
		return payload, out, err
	}
	for i, option := range options {
		if option == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyStep(s)
	}
	return ActivityRef[In, Out]{p.declare(s, workflow.OutputOf{})}
}

// DefaultRetry is the policy of activities that have none of their own.
func DefaultRetry() workflow.RetryPolicy {
	return workflow.RetryPolicy{Attempts: 5, First: time.Second, Factor: 2, Cap: time.Minute, Jitter: 0.1}
}

// declare adds what the machine may start.
func (p *plan[I, S, O]) declare(s *program.Step, output workflow.OutputOf) ref {
	s.Add()
	if p.started[s.Name] == nil {
		p.started[s.Name] = &handlers[S, O]{kind: s.Kind, output: output}
	}
	return ref{machine: &p.program, name: s.Name, kind: s.Kind}
}

// TimerRef starts a timer that [Builder.Timer] has declared.
type TimerRef struct{ ref }

// Timer declares a durable timer, which the machine may start any number of times. [Builder.OnTimer]
// says what happens when one fires.
func (b *Builder[I, S, O]) Timer(name string) TimerRef {
	p := b.open()
	if p == nil {
		return TimerRef{}
	}
	s := &program.Step{Of: &p.program, Step: workflow.Step{Name: name, Kind: workflow.SleepUntil, WakeFrom: workflow.Input, Spawned: true}}
	return TimerRef{p.declare(s, workflow.OutputOf{})}
}

// ChildRef starts a child run that [Child] has declared.
type ChildRef[CI, CO any] struct{ ref }

// Child declares another workflow, or machine, of which the machine may start runs, as
// [troupe.Child] does for a step. Register that one with the same engine.
func Child[I, S, O, CI, CO any](
	b *Builder[I, S, O], name string, child troupe.Definition[CI, CO], options ...troupe.ChildOption,
) ChildRef[CI, CO] {
	p := b.open()
	if p == nil {
		return ChildRef[CI, CO]{}
	}
	s := &program.Step{Of: &p.program, Step: workflow.Step{
		Name: name, Kind: workflow.ChildRun, Spawned: true, Type: fmt.Sprintf("func(%v) %v", reflect.TypeFor[CI](), reflect.TypeFor[CO]()),
	}}
	s.Function.Result, s.Function.Spawn = reflect.TypeFor[CO](), reflect.TypeFor[CI]()
	if v := reflect.ValueOf(child); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		s.Problem("workflow", "the workflow is nil", "make one with Define, before this one")
	} else {
		of := child.Program(nil, nil)
		s.BeginsRunsOf(&of)
	}
	s.Function.Input = func(codec actors.Codec, in actors.Inputs) (any, error) {
		return program.DecodeSpawned[CI](codec, in)
	}
	for i, option := range options {
		if option == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyChild(s)
	}
	return ChildRef[CI, CO]{p.declare(s, s.Child.Output)}
}
