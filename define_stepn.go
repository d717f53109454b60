package troupe

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// StepN declares a step with any number of parents, and one attempt unless [Retry]
// says otherwise. declare is called at once:
// it says with [Need] what the step reads, and returns the step's function,
// which reads it.
//
//	total := troupe.StepN(b, "total", func(n *troupe.Needs) func(context.Context, Cart, troupe.Values) (int, error) {
//		var prices []func(troupe.Values) int
//		for _, ref := range quotes {
//			prices = append(prices, troupe.Need(n, ref))
//		}
//		return func(ctx context.Context, cart Cart, values troupe.Values) (int, error) {
//			sum := 0
//			for _, price := range prices {
//				sum += price(values)
//			}
//			return sum, nil
//		}
//	})
func StepN[I, O any](
	b *Builder[I], name string, declare func(needs *Needs) func(ctx context.Context, in I, values Values) (O, error),
	opts ...StepOption,
) StepRef[O] {
	p := b.open()
	if p == nil {
		return StepRef[O]{}
	}
	s := p.step(workflow.Step{Name: name, Kind: workflow.Func})
	needs := &Needs{step: s}
	var fn func(context.Context, I, Values) (O, error)
	if declare != nil {
		fn = declare(needs)
	}
	needs.step = nil
	if fn == nil {
		s.Problem("function", "the function is nil", "return the step's function from declare")
	}
	s.Type = fmt.Sprintf("func(context.Context, %v, [%s]) (%v, error)",
		reflect.TypeFor[I](), strings.Join(needs.types, " "), reflect.TypeFor[O]())
	apply(s, opts)
	return addFunction(p, s, func(ctx context.Context, in I, args *arguments) (O, error) {
		values := needs.read(args)
		if args.err != nil {
			return *new(O), args.err
		}
		return fn(ctx, in, values)
	})
}

// Needs collects the parents of a [StepN].
type Needs struct {
	step    *program.Step // nil once they are declared
	types   []string
	readers []func(Codec, parentOutcome) (any, error)
}

// Values are the outputs of the parents of a [StepN], in one attempt.
type Values struct {
	of   *Needs
	list []any
}

// Need declares a parent of a [StepN], which is a ref, or [Maybe] or [Settled]
// of one. The function that it returns reads the parent's output from the
// values of an attempt; with those of another step it panics, which fails the
// attempt.
func Need[T any](needs *Needs, parent Parent[T]) func(Values) T {
	at := -1
	if needs != nil && needs.step != nil {
		s := needs.step
		if to, ok := edge(s, fmt.Sprintf("parents[%d]", len(s.Parents)), parent); ok {
			at = len(s.Parents)
			s.Parents = append(s.Parents, to)
			needs.types = append(needs.types, reflect.TypeFor[T]().String())
			needs.readers = append(needs.readers, func(codec Codec, from parentOutcome) (any, error) {
				return parent.read(codec, from)
			})
		}
	}
	return func(values Values) T {
		if at < 0 || values.of != needs {
			panic("troupe: Need was called outside the declaration of this step: call it in the function given to StepN")
		}
		value, _ := values.list[at].(T) // a nil interface is T's zero value
		return value
	}
}

func (n *Needs) read(args *arguments) Values {
	values := Values{of: n, list: make([]any, len(n.readers))}
	for i, reader := range n.readers {
		switch {
		case args.err != nil:
			return values
		case i >= len(args.outcomes):
			args.err = fmt.Errorf("parent %d: the task has %d parents only", i, len(args.outcomes))
		default:
			values.list[i], args.err = reader(args.codec, args.take(i))
		}
	}
	return values
}
