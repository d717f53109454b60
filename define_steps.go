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

// Step0 declares a step without parents: it runs when the run starts. Like every
// step it has one attempt, unless [Retry] or Config.Retry gives it more: its first
// error fails it. Attempts that are lost with their process do not count.
func Step0[I, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I) (O, error), opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, _ *arguments) (O, error) {
		return fn(ctx, in)
	}, nil, opts)
}

// Step1 declares a step with one parent, whose output is the last parameter of
// fn. The parent is a ref, or Maybe or Settled of one. It has one attempt, unless
// [Retry] says otherwise.
func Step1[I, A, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I, a A) (O, error),
	p1 Parent[A], opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, args *arguments) (O, error) {
		v1 := argument(args, 0, p1)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, v1)
	}, []Dependency{p1}, opts)
}

// Step2 declares a step with two parents and one attempt; see [Step1].
func Step2[I, A, B, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I, a A, b B) (O, error),
	p1 Parent[A], p2 Parent[B], opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, args *arguments) (O, error) {
		v1, v2 := argument(args, 0, p1), argument(args, 1, p2)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, v1, v2)
	}, []Dependency{p1, p2}, opts)
}

// Step3 declares a step with three parents and one attempt; see [Step1].
func Step3[I, A, B, C, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I, a A, b B, c C) (O, error),
	p1 Parent[A], p2 Parent[B], p3 Parent[C], opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, args *arguments) (O, error) {
		v1, v2, v3 := argument(args, 0, p1), argument(args, 1, p2), argument(args, 2, p3)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, v1, v2, v3)
	}, []Dependency{p1, p2, p3}, opts)
}

// Step4 declares a step with four parents and one attempt; see [Step1].
func Step4[I, A, B, C, D, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I, a A, b B, c C, d D) (O, error),
	p1 Parent[A], p2 Parent[B], p3 Parent[C], p4 Parent[D], opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, args *arguments) (O, error) {
		v1, v2, v3, v4 := argument(args, 0, p1), argument(args, 1, p2), argument(args, 2, p3), argument(args, 3, p4)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, v1, v2, v3, v4)
	}, []Dependency{p1, p2, p3, p4}, opts)
}

// Step5 declares a step with five parents and one attempt; see [Step1]. For more
// parents there is [StepN].
func Step5[I, A, B, C, D, E, O any](
	b *Builder[I], name string, fn func(ctx context.Context, in I, a A, b B, c C, d D, e E) (O, error),
	p1 Parent[A], p2 Parent[B], p3 Parent[C], p4 Parent[D], p5 Parent[E], opts ...StepOption,
) StepRef[O] {
	return declare(b, name, fn, func(ctx context.Context, in I, args *arguments) (O, error) {
		v1, v2, v3, v4 := argument(args, 0, p1), argument(args, 1, p2), argument(args, 2, p3), argument(args, 3, p4)
		v5 := argument(args, 4, p5)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, v1, v2, v3, v4, v5)
	}, []Dependency{p1, p2, p3, p4, p5}, opts)
}

// declare adds a step. fn is looked at for its type only; call calls it.
func declare[I, O any](
	b *Builder[I], name string, fn any, call func(context.Context, I, *arguments) (O, error),
	parents []Dependency, opts []StepOption,
) StepRef[O] {
	p := b.open()
	if p == nil {
		return StepRef[O]{}
	}
	s := p.step(workflow.Step{Name: name, Kind: workflow.Func, Type: reflect.TypeOf(fn).String()})
	if reflect.ValueOf(fn).IsNil() {
		s.Problem("function", "the function is nil", "pass the step's function")
	}
	for i, parent := range parents {
		if to, ok := edge(s, fmt.Sprintf("parents[%d]", i), parent); ok {
			s.Parents = append(s.Parents, to)
		}
	}
	apply(s, opts)
	return addFunction(p, s, call)
}

// addFunction adds a step whose function is typed: bytes go in and bytes come out.
func addFunction[I, O any](p *plan, s *program.Step, call func(context.Context, I, *arguments) (O, error)) StepRef[O] {
	s.Function.Result = reflect.TypeFor[O]()
	s.Function.Call = func(ctx context.Context, codec actors.Codec, in actors.Inputs) ([]byte, any, error) {
		input, err := program.DecodeInput[I](codec, in)
		if err != nil {
			return nil, nil, err
		}
		out, err := call(ctx, input, &arguments{codec: codec, outcomes: in.Parents, once: in.Once})
		if err != nil {
			return nil, nil, err
		}
		payload, err := program.EncodeOutput(codec, out)
		return payload, out, err
	}
	return StepRef[O]{at: place{plan: p, step: s.Add()}}
}

// arguments are the outcomes of an attempt's parents while they are decoded.
type arguments struct {
	codec    Codec
	outcomes []persistence.Outcome
	once     bool  // they are not needed again
	err      error // the first one
}

// take returns an outcome to be decoded. A large output that is not needed again is let go
// of, so that a step has what it gets once in memory while it runs, and not twice.
func (a *arguments) take(i int) parentOutcome {
	from := parentOutcome{Outcome: a.outcomes[i]}
	if a.once && from.Large {
		from.own, a.outcomes[i].Output = true, nil
	}
	return from
}

// parentOutcome is an outcome of a parent.
type parentOutcome struct {
	persistence.Outcome

	own bool // nothing else reads these bytes of the output
}

// argument decodes one of them. After an error it returns zero values.
func argument[T any](args *arguments, i int, parent Parent[T]) T {
	var value T
	switch {
	case args.err != nil:
	case i >= len(args.outcomes):
		args.err = fmt.Errorf("parameter %d of %d: %w", i, len(args.outcomes), actors.ErrInputsMissing)
	default:
		value, args.err = parent.read(args.codec, args.take(i))
	}
	return value
}
