package troupe

import (
	"context"
	"fmt"
	"math"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// windowDefault is how many elements of a map are open at once, unless MaxConcurrency says
// otherwise.
const windowDefault = 100

// Map declares a step that executes fn for each item of a list that a parent returns, of up to
// 100,000 items, and returns the results in the order of the items. An element is the task that
// executes fn for one item. It is a durable task of its own: it is retried, times out and is taken
// over from a pod that dies as a step is, has an idempotency key of its own, and knows the index of
// its item from [Task]. [MaxConcurrency] bounds how many are open at once, on all pods together;
// elements are made as that window moves. Options of functions, such as [Retry], are for each
// element. docs/maps.md has the rest.
//
// If an element fails for good, no others begin, and when those that run have ended, the step fails
// with [ErrElementFailed]; see [MapSettled] for a list of which some may fail. A run that continues
// this one after a failure ([Engine.DeadLetters]) executes only the elements that have not
// completed. An empty list of items gives an empty list of results.
//
// An item has at most 64 KiB when it is encoded, all items together 8 MiB, and the results together
// Config.PayloadLimit: larger ones fail the step with the class too_large. The list is also the
// output of its step, which has at most Config.PayloadLimit. Pass references to what is stored
// elsewhere, or let an item stand for a part of the list.
func Map[I, T, R any](
	b *Builder[I], name string, items Parent[[]T], fn func(ctx context.Context, in I, item T) (R, error), opts ...MapOption,
) StepRef[[]R] {
	return declareMap(b, name, "", items, fn, opts, 0, func(n int, ended func(int) persistence.Outcome, decode func(int, any) error) ([]R, error) {
		results := make([]R, n)
		for i := range results {
			if end := ended(i); end.State != lifecycle.Completed {
				return nil, fmt.Errorf("element %d is %v: want completed", i, end.State)
			}
			if err := decode(i, &results[i]); err != nil {
				return nil, err
			}
		}
		return results, nil
	})
}

// MapSettled is a [Map] whose elements may fail: its output says how each element ended, in the
// order of the items. Unless [ToleratedFailures] says otherwise any number may fail.
func MapSettled[I, T, R any](
	b *Builder[I], name string, items Parent[[]T], fn func(ctx context.Context, in I, item T) (R, error), opts ...SettledMapOption,
) StepRef[[]ElementOutcome[R]] {
	return declareMap(b, name, "settled ", items, fn, opts, 1,
		func(n int, ended func(int) persistence.Outcome, decode func(int, any) error) ([]ElementOutcome[R], error) {
			results := make([]ElementOutcome[R], n)
			for i := range results {
				end := ended(i)
				results[i] = ElementOutcome[R]{State: end.State, Class: end.Class, Error: end.Error}
				if end.State != lifecycle.Completed {
					continue
				}
				if err := decode(i, &results[i].Output); err != nil {
					return nil, err
				}
			}
			return results, nil
		})
}

// gathering makes the output of a map of n elements: ended says how the element of an item has
// ended, and decode decodes the output of one that completed into a target.
type gathering[O any] func(n int, ended func(item int) persistence.Outcome, decode func(item int, target any) error) (O, error)

// declareMap adds a map whose output is an O. The kind keeps the fingerprints of Map and MapSettled
// apart, and tolerated is the fraction that may fail where no option says otherwise.
func declareMap[O, I, T, R any, Option SettledMapOption](
	b *Builder[I], name, kind string, items Parent[[]T], fn func(ctx context.Context, in I, item T) (R, error), opts []Option,
	tolerated float64, gather gathering[O],
) StepRef[O] {
	p := b.open()
	if p == nil {
		return StepRef[O]{}
	}
	s := p.step(workflow.Step{Name: name, Kind: workflow.Map, Type: kind + reflect.TypeOf(fn).String()})
	if fn == nil {
		s.Problem("function", "the function is nil", "pass the function that is executed for each element")
	}
	if to, ok := edge(s, "items", items); ok {
		s.Parents = append(s.Parents, to)
	}
	m := &program.Map{
		Item: reflect.TypeFor[T](), List: reflect.TypeFor[O](), Window: windowDefault, Tolerated: tolerated,
		Split: func(codec actors.Codec, in actors.Inputs) (int, func(int) any, error) {
			args := &arguments{codec: codec, outcomes: in.Parents, once: in.Once}
			list := argument(args, 0, items)
			return len(list), func(i int) any { return list[i] }, args.err
		},
		Gather: func(n int, ended func(int) persistence.Outcome, decode func(int, any) error) (any, error) {
			return gather(n, ended, decode)
		},
	}
	s.Function.Map, s.Function.Result = m, reflect.TypeFor[R]()
	s.Function.Call = func(ctx context.Context, codec actors.Codec, in actors.Inputs) ([]byte, any, error) {
		input, err := program.DecodeInput[I](codec, in)
		if err != nil {
			return nil, nil, err
		}
		item, err := program.DecodeItem[T](codec, in)
		if err != nil {
			return nil, nil, err
		}
		out, err := fn(ctx, input, item)
		if err != nil {
			return nil, nil, err
		}
		payload, err := program.EncodeOutput(codec, out)
		return payload, out, err
	}
	for i, option := range opts {
		if any(option) == nil {
			s.Problem(fmt.Sprintf("options[%d]", i), "the option is nil", "leave it out")
			continue
		}
		option.ApplyMap(s)
	}
	return StepRef[O]{at: place{plan: p, step: s.Add()}}
}

// MaxConcurrency bounds how many elements of a [Map] are open at once: executed, queued, or waiting
// for another attempt, on all pods together. It takes 1 to 1,000; without it 100 may be open. A map
// that has begun its elements keeps the number that it began with.
func MaxConcurrency(n int) MapOption {
	return mapOption(func(s *program.Step) {
		if n < 1 || n > lifecycle.MapWindowMax {
			s.Problem("max_concurrency", fmt.Sprintf("%d elements at once", n), fmt.Sprintf("use 1 to %d", lifecycle.MapWindowMax))
			return
		}
		s.Function.Map.Window = n
	})
}

// ToleratedFailures says which part of the elements of a [MapSettled] may fail, from 0 to 1, rounded
// down to a number of them: 0.05 of 1,000 elements are 50. If more fail, no others begin, and when
// those that run have ended, the step fails with [ErrElementFailed].
func ToleratedFailures(fraction float64) SettledMapOption {
	return settledMapOption(func(s *program.Step) {
		if math.IsNaN(fraction) || fraction < 0 || fraction > 1 {
			s.Problem("tolerated_failures", fmt.Sprintf("%v is no fraction of the elements", fraction), "use 0, for none, to 1, for all")
			return
		}
		s.Function.Map.Tolerated = fraction
	})
}

type mapOption func(s *program.Step)

func (o mapOption) ApplyMap(s *program.Step) { o(s) }
func (mapOption) IsMapOption()               {}

type settledMapOption func(s *program.Step)

func (o settledMapOption) ApplyMap(s *program.Step) { o(s) }
