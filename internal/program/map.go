package program

import (
	"context"
	"fmt"
	"math"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Map is a step that executes its function for each element of a list. The function gets the
// item in Inputs.Item; see [DecodeItem].
type Map struct {
	Item      reflect.Type // of the elements of the list
	List      reflect.Type // of the output
	Window    int          // so many elements are open at once
	Tolerated float64      // which part of them may end without completing, 0 to 1

	// Split decodes the list. It returns how many items there are, and each of them.
	Split func(codec actors.Codec, in actors.Inputs) (items int, item func(int) any, err error)
	// Gather returns the output: ended says how the element of an item has ended, and decode
	// decodes the output of one that completed.
	Gather func(items int, ended func(item int) persistence.Outcome, decode func(item int, target any) error) (any, error)
}

// bindMap makes the function of a map: that of a step, for its elements, and what comes before
// and after these.
func (p *Program) bindMap(s *workflow.Step, fn Function, fingerprint workflow.Hash, with Binding) actors.StepFunction {
	m, decide := fn.Map, fn.Decide
	fn.Decide = nil // conditions look at the list
	f := p.bindStep(s, fn, fingerprint, with)
	done := func(ctx context.Context, value any) (actors.Output, error) {
		payload, err := EncodeOutput(attemptCodec(ctx, with.Codec), value)
		switch {
		case err != nil:
			return actors.Output{}, err
		case decide == nil:
			return actors.Output{Payload: payload}, nil
		}
		return actors.Output{Payload: payload, Edges: decide(value)}, nil
	}
	gather := func(ctx context.Context, elements *actors.Elements) (actors.Output, error) {
		codec := attemptCodec(ctx, with.Codec)
		value, err := m.Gather(elements.Len(), elements.At, func(item int, target any) error {
			return decodeElement(codec, s.Name, item, elements.At(item).Output, target)
		})
		if err != nil {
			return actors.Output{}, err
		}
		return done(ctx, value)
	}
	f.Map = &actors.MapFunction{
		Gather: gather,
		Split: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			codec := attemptCodec(ctx, with.Codec)
			n, item, err := m.Split(codec, in)
			switch {
			case err != nil:
				return actors.Output{}, err
			case n == 0:
				return gather(ctx, &actors.Elements{})
			}
			begun, err := m.begin(codec, s.Name, n, item, with.JSON && isAny(m.Item))
			return actors.Output{Map: begun}, err
		},
	}
	f.Replay = func(ctx context.Context, payload []byte) (actors.Output, error) {
		if decide == nil {
			return actors.Output{Payload: payload}, nil
		}
		value, err := decodeAs(ParentCodec(attemptCodec(ctx, with.Codec), s.Name), payload, m.List)
		if err != nil {
			return actors.Output{}, decoding(fmt.Errorf("decode the output that is taken over into %v: %w", m.List, err))
		}
		return actors.Output{Payload: payload, Edges: decide(value)}, nil
	}
	return f
}

// allowed returns how many of so many elements may end without completing. The product of a decimal
// fraction may be less than the number that is meant by the last bit.
func (m *Map) allowed(items int) int32 {
	return int32(math.Floor(m.Tolerated*float64(items) + 1e-9))
}

// begin encodes the items of a map, each for itself.
func (m *Map) begin(codec actors.Codec, step string, n int, item func(int) any, dynamic bool) (*persistence.Map, error) {
	if n > lifecycle.MapItemsMax {
		return nil, tooLarge(split, "the list has %d items, a map takes %d", n, lifecycle.MapItemsMax)
	}
	begun := &persistence.Map{Items: make([][]byte, n), Window: int32(m.Window), Allowed: m.allowed(n)}
	size := 0
	for i := range begun.Items {
		value := item(i)
		payload, err := Encode(elementCodec(codec, lifecycle.ElementName(step, int32(i)), actors.PayloadItem), value)
		if err == nil && dynamic {
			err = checkAny(value, payload)
		}
		if err != nil {
			return nil, actors.Terminal(actors.WithClass(lifecycle.ClassEncoding, fmt.Errorf("encode item %d of type %T: %w", i, value, err)))
		}
		if len(payload) > persistence.MapItemMax {
			return nil, tooLarge(refer, "item %d has %d bytes, an item of a map has at most %d", i, len(payload), persistence.MapItemMax)
		}
		if size += len(payload); size > persistence.MapItemsMax {
			return nil, tooLarge(refer+", or "+split, "the first %d of %d items have %d bytes, those of a map have at most %d together", i+1, n, size, persistence.MapItemsMax)
		}
		begun.Items[i] = payload
	}
	return begun, nil
}

// Remedies of a list that no map takes.
const (
	refer = "pass references to what is stored elsewhere"
	split = "let an item stand for a part of the list, such as a hundred entries that one element handles"
)

// tooLarge is the error of a list that no map takes.
func tooLarge(remedy, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + ": " + remedy
	return actors.Terminal(actors.WithClass(lifecycle.ClassTooLarge, fmt.Errorf("%s", text)))
}

// DecodeItem decodes the item of an element for the codec that its Function was called with. No
// further attempt cures its error.
func DecodeItem[T any](codec actors.Codec, in actors.Inputs) (item T, err error) {
	if of, ok := codec.(taskCodec); ok {
		codec = elementCodec(codec, of.output.Step, actors.PayloadItem)
	}
	if in.Once {
		item, err = DecodeOwn[T](codec, in.Item)
	} else {
		item, err = Decode[T](codec, in.Item)
	}
	if err != nil {
		return item, decoding(fmt.Errorf("decode the item into %v: %w", reflect.TypeFor[T](), err))
	}
	return item, nil
}

// decodeElement decodes the output of an element, whose bytes nothing else reads.
func decodeElement(codec actors.Codec, step string, item int, payload []byte, target any) error {
	name := lifecycle.ElementName(step, int32(item))
	decoder := elementCodec(codec, name, actors.PayloadOutput)
	if err := Contain(func() error { return decoder.Unmarshal(payload, target) }); err != nil {
		return decoding(fmt.Errorf("decode the output of %q into %v: %w", name, reflect.TypeOf(target).Elem(), err))
	}
	return nil
}

// elementCodec returns what encodes and decodes an item, or an output, of an element.
func elementCodec(codec actors.Codec, name string, kind actors.PayloadKind) actors.Codec {
	c, ok := codec.(taskCodec)
	if !ok {
		return codec
	}
	c.output.Step, c.output.Kind = name, kind
	return actors.CodecFor(c.of, c.output)
}
