package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Encode encodes a value.
func Encode(codec actors.Codec, value any) (payload []byte, err error) {
	err = Contain(func() (err error) {
		payload, err = codec.Marshal(value)
		return err
	})
	if payload == nil && err == nil {
		payload = []byte{} // zero bytes are a payload; nil would be no output
	}
	return payload, err
}

// EncodeOutput encodes what a step function returned. No further attempt cures
// its error.
func EncodeOutput(codec actors.Codec, out any) ([]byte, error) {
	payload, err := Encode(codec, out)
	return payload, encoding(out, err)
}

// encoding is the error of an output that cannot be encoded.
func encoding(out any, err error) error {
	if err == nil {
		return nil
	}
	return actors.Terminal(actors.WithClass(lifecycle.ClassEncoding, fmt.Errorf("encode the output of type %T: %w", out, err)))
}

// Decode decodes a copy of a payload: siblings and later steps of the run read
// the same bytes, and codecs, or methods of the embedder that package json calls,
// may change what they read.
func Decode[T any](codec actors.Codec, payload []byte) (T, error) {
	return DecodeOwn[T](codec, bytes.Clone(payload))
}

// DecodeOwn decodes a payload that is not needed again.
func DecodeOwn[T any](codec actors.Codec, payload []byte) (value T, err error) {
	err = Contain(func() error { return codec.Unmarshal(payload, &value) })
	return value, err
}

// DecodeInput decodes the run's input for an attempt. No further attempt cures
// its error.
func DecodeInput[I any](codec actors.Codec, from actors.Inputs) (in I, err error) {
	if from.Once && from.LargeInput {
		in, err = DecodeOwn[I](codec, from.Input)
	} else {
		in, err = Decode[I](codec, from.Input)
	}
	if err != nil {
		return in, decoding(fmt.Errorf("decode the run's input into %v: %w", reflect.TypeFor[I](), err))
	}
	return in, nil
}

// decodeAs is Decode for a type that is known at run time.
func decodeAs(codec actors.Codec, payload []byte, as reflect.Type) (value any, err error) {
	into := reflect.New(as)
	err = Contain(func() error { return codec.Unmarshal(bytes.Clone(payload), into.Interface()) })
	return into.Elem().Interface(), err
}

func decoding(err error) error {
	return actors.Terminal(actors.WithClass(lifecycle.ClassDecoding, err))
}

// errPanicNil is what a panic of nil becomes: under GODEBUG=panicnil=1 it recovers
// to nil.
var errPanicNil = errors.New("panic: nil")

// Contain calls code of the embedder and returns a panic in it as an error.
func Contain(call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %s", panics.Text(cause))
		}
	}()
	err = errPanicNil
	return call()
}

// attemptCodec returns the codec of an attempt: it encodes the output of the step and
// decodes the input of the run.
func attemptCodec(ctx context.Context, codec actors.Codec) actors.Codec {
	of, ok := codec.(actors.PayloadCodec)
	if attempt := actors.AttemptFrom(ctx); ok && attempt != nil {
		task := attempt.Info()
		return taskCodec{of, actors.PayloadPlace{Tenant: task.Tenant, Workflow: task.Workflow, Step: task.Step, Kind: actors.PayloadOutput}}
	}
	return codec
}

type taskCodec struct {
	of     actors.PayloadCodec
	output actors.PayloadPlace
}

// Marshal implements actors.Codec.
func (c taskCodec) Marshal(value any) ([]byte, error) { return c.of.MarshalFor(c.output, value) }

// Unmarshal implements actors.Codec.
func (c taskCodec) Unmarshal(data []byte, target any) error {
	return c.of.UnmarshalFor(inputOf(c.output.Tenant, c.output.Workflow), data, target)
}

// ParentCodec returns, for the codec that a Function was called with, what decodes the
// output of a parent.
func ParentCodec(codec actors.Codec, step string) actors.Codec {
	c, ok := codec.(taskCodec)
	if !ok {
		return codec
	}
	c.output.Step = step
	return actors.CodecFor(c.of, c.output)
}

// OutputCodec is ParentCodec for an output that may be the payload of a signal, or the output of
// a child run: it is encoded as that was.
func OutputCodec(codec actors.Codec, of workflow.OutputOf) actors.Codec {
	c, ok := codec.(taskCodec)
	if !ok {
		return codec
	}
	return actors.CodecFor(c.of, OutputPlace(c.output.Tenant, of))
}

// SignalPlace is that of the payload of a signal. The sender does not know which step of the
// run takes it.
func SignalPlace(tenant, workflow, signal string) actors.PayloadPlace {
	return actors.PayloadPlace{Tenant: tenant, Workflow: workflow, Step: signal, Kind: actors.PayloadSignal}
}

// OutputPlace is that of an output.
func OutputPlace(tenant string, of workflow.OutputOf) actors.PayloadPlace {
	if of.Signal {
		return SignalPlace(tenant, of.Workflow, of.Step)
	}
	return actors.PayloadPlace{Tenant: tenant, Workflow: of.Workflow, Step: of.Step, Kind: actors.PayloadOutput}
}

// EncodeSignal encodes the payload of a signal, of a type that may be any. json: the bytes are
// JSON's, maybe changed by codec without loss.
func EncodeSignal(codec actors.Codec, json bool, place actors.PayloadPlace, value any, as reflect.Type) ([]byte, error) {
	payload, err := Encode(actors.CodecFor(codec, place), value)
	if err == nil && json && isAny(as) {
		err = checkAny(value, payload)
	}
	return payload, err
}

func inputOf(tenant, workflow string) actors.PayloadPlace {
	return actors.PayloadPlace{Tenant: tenant, Workflow: workflow, Kind: actors.PayloadInput}
}
