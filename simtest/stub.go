package simtest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
)

// stub makes of a step's real function the one in its place.
type stub func(own actors.StepFunction) func(ctx context.Context, in actors.Inputs) (actors.Output, error)

// Call is what a [Stub] is called with.
type Call[I, T any] struct {
	Input I // of the run
	// Real calls the step's own function, of an element of a map for its item.
	Real    func(ctx context.Context) (T, error)
	parents map[string]func(target any) error
	item    func(target any) error // nil: it is no element of a map
}

// Stub puts fn in the place of a step's function, on all pods. T is the type of
// the step's output. Of a map it is the type of the result of an element: fn is
// called for each of them, and reads its item with [Item]. The step may be an activity that a
// machine has declared: fn is called for each that it starts, and reads its input with [Item].
// Steps with troupe.InTx
// need a stub here, because there is no transaction for them; [OnCommit] does what
// theirs does. Stub before anything starts.
func Stub[I, O, T any](s *Sim, w *Workflow[I, O], step string, fn func(ctx context.Context, call Call[I, T]) (T, error)) {
	if s.begun.Load() {
		s.Fatalf("stub %q: the pods have started: stub first", step)
	}
	s.unused[w.name+"/"+step] = true
	s.stubs[w.name+"/"+step] = func(own actors.StepFunction) func(context.Context, actors.Inputs) (actors.Output, error) {
		switch {
		case own.Call == nil:
			s.world.Fail("the cluster starts", "step %q waits for a signal and has no function: send it with simtest.Send", step)
		case own.Finish == nil:
			s.world.Fail("the cluster starts", "step %q begins a child run and has no function: stub steps of that workflow", step)
		}
		if result := reflect.TypeFor[T](); own.Result != result {
			s.world.Fail("the cluster starts", "the stub of step %q returns %v, the step %v", step, result, own.Result)
		}
		delete(s.unused, w.name+"/"+step)
		return func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			call := Call[I, T]{parents: map[string]func(any) error{}}
			codecs := codecsOf(ctx, own.Codec)
			if err := codecs(actors.PayloadInput, "").Unmarshal(in.Input, &call.Input); err != nil {
				return actors.Output{}, fmt.Errorf("decode the input: %w", err)
			}
			for _, parent := range in.Parents {
				call.parents[parent.Step] = func(target any) error {
					of, place := w.outputs[parent.Step], actors.PayloadPlace{Tenant: troupe.Task(ctx).Tenant, Kind: actors.PayloadOutput}
					if place.Workflow, place.Step = of.Workflow, of.Step; of.Signal {
						place.Kind = actors.PayloadSignal
					}
					return actors.CodecFor(own.Codec, place).Unmarshal(parent.Output, target)
				}
			}
			about := troupe.Task(ctx)
			switch {
			case own.Map == nil && in.Item != nil: // an activity of a machine
				call.item = func(target any) error {
					return codecs(actors.PayloadInput, about.Step).Unmarshal(bytes.Clone(in.Item), target)
				}
			case own.Map != nil:
				call.item = func(target any) error {
					return codecs(actors.PayloadItem, about.Step).Unmarshal(bytes.Clone(in.Item), target)
				}
			}
			call.Real = func(ctx context.Context) (T, error) {
				var value T
				again := in
				again.Once = false // the stub may read the inputs, too
				out, err := own.Call(ctx, again)
				if err == nil {
					err = codecs(actors.PayloadOutput, about.Step).Unmarshal(out.Payload, &value)
				}
				return value, err
			}
			value, err := fn(ctx, call)
			if err != nil {
				return actors.Output{}, err
			}
			return own.Finish(ctx, value)
		}
	}
}

// Item returns the item of the element of a map that is stubbed, or the input of the activity of a
// machine, and whether the step is a map of such items, or an activity with such an input.
func Item[E, I, T any](call Call[I, T]) (E, bool) {
	var item E
	known := call.item != nil && call.item(&item) == nil
	return item, known
}

// codecsOf returns what encodes and decodes the payloads of an attempt.
func codecsOf(ctx context.Context, codec actors.Codec) func(kind actors.PayloadKind, step string) actors.Codec {
	task := troupe.Task(ctx)
	return func(kind actors.PayloadKind, step string) actors.Codec {
		return actors.CodecFor(codec, actors.PayloadPlace{Tenant: task.Tenant, Workflow: task.Workflow, Step: step, Kind: kind})
	}
}

// Parent returns the output of a parent of the stubbed step, and whether it has
// one.
func Parent[P, I, T any](call Call[I, T], step string) (P, bool) {
	var output P
	read := call.parents[step]
	return output, read != nil && read(&output) == nil
}
