package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/lifecycle"
)

const (
	elementsDefault = 1000 // of a map without a number
	atOnceDefault   = 100
	warmElements    = 100 // of a map of a run before the load
	outputOwn       = 16  // bytes of the output of an element besides the payload, in the list of all
)

// isMap tells whether runs have elements.
func (s shape) isMap() bool { return s.kind == "map" || s.kind == "settled" }

// overList has a step that makes a list, a map over it, and a step that ends the run.
func overList(b *troupe.Builder[order], w *worker, s shape) troupe.StepRef[result] {
	list := troupe.Step0(b, "list", w.list(s.n), w.retry())
	if s.kind == "settled" {
		each := troupe.MapSettled(b, "each", list, w.element, troupe.MaxConcurrency(w.load.AtOnce), w.retry())
		return troupe.Step1(b, "end", func(ctx context.Context, in order, ends []troupe.ElementOutcome[string]) (result, error) {
			return w.end(ctx, in, len(ends), s.n)
		}, each, w.retry())
	}
	each := troupe.Map(b, "each", list, w.element, troupe.MaxConcurrency(w.load.AtOnce), w.retry())
	return troupe.Step1(b, "end", func(ctx context.Context, in order, outputs []string) (result, error) {
		return w.end(ctx, in, len(outputs), s.n)
	}, each, w.retry())
}

// list returns the function of the step that makes the list: the numbers of its items. A run before
// the load has a short one.
func (w *worker) list(n int) func(context.Context, order) ([]int32, error) {
	return func(ctx context.Context, in order) ([]int32, error) {
		if _, err := w.work(ctx, in, 0, false); err != nil {
			return nil, err
		}
		items := make([]int32, itemsOf(in, n))
		for i := range items {
			items[i] = int32(i)
		}
		return items, nil
	}
}

func itemsOf(in order, n int) int {
	if in.N < 0 {
		return min(n, warmElements)
	}
	return n
}

// element is the function of an element, which gives the payload alone: the outputs of all of them
// are one list.
func (w *worker) element(ctx context.Context, in order, item int32) (string, error) {
	if _, err := w.work(ctx, in, int(item)+1, false); err != nil {
		return "", err
	}
	if in.N >= 0 {
		w.elements.Add(1)
	}
	return w.pad, nil
}

// end is the last step of a run with a map. Its number is behind those of all elements.
func (w *worker) end(ctx context.Context, in order, got, n int) (result, error) {
	if want := itemsOf(in, n); got != want {
		return result{}, fmt.Errorf("the map gave %d outputs: want %d", got, want)
	}
	return w.work(ctx, in, n+1, true)
}

// mapProblems are what is wrong with options of maps.
func (o Options) mapProblems() []error {
	s, err := parseShape(o.Shape)
	if err != nil {
		return nil // it is reported by itself
	}
	if !s.isMap() {
		if o.AtOnce != 0 || o.asked("--at-once") {
			return []error{fmt.Errorf("--at-once is for maps: leave it out, or use --shape map-%d", elementsDefault)}
		}
		return nil
	}
	var problems []error
	if (o.AtOnce < 1 || o.AtOnce > lifecycle.MapWindowMax) && (o.AtOnce != 0 || o.asked("--at-once")) {
		problems = append(problems, fmt.Errorf("--at-once is %d: use 1 to %d", o.AtOnce, lifecycle.MapWindowMax))
	}
	if limit := cmp.Or(o.Config.PayloadLimit, payloadLimit); o.Payload > 0 && s.n*(o.Payload+outputOwn) > limit {
		problems = append(problems, errors.New("the outputs of all elements are one payload: use fewer elements or a smaller --payload, or set TROUPE_PAYLOAD_LIMIT"))
	}
	return problems
}
