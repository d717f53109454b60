package troupe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/panics"
)

// Codec turns inputs, outputs and progress into bytes and back. The engine
// stores the bytes as they are and never looks into them. A Codec is safe for
// concurrent use. All pods of one database must use codecs that read each
// other's bytes.
type Codec interface {
	// Marshal returns the encoding of value. The engine keeps the slice.
	Marshal(value any) ([]byte, error)
	// Unmarshal decodes data into what target points to. data is its own: it may
	// change it, as ciphers do that decrypt in place, and keep it.
	Unmarshal(data []byte, target any) error
}

// JSON is the default codec: package encoding/json. Any JSON is a valid
// payload, also null, a bare number, or text with \u0000 in it.
type JSON struct{}

var _ Codec = JSON{}

// depthMax is how deep package json reads: it writes more than that.
const depthMax = 10_000

var errTooDeep = errors.New("values are nested more than 10,000 deep: nobody could read them")

// Marshal implements Codec. It refuses what Unmarshal could not read.
func (JSON) Marshal(value any) ([]byte, error) {
	payload, err := json.Marshal(value)
	if err == nil && len(payload) > depthMax && !json.Valid(payload) {
		return nil, errTooDeep
	}
	return payload, err
}

// Unmarshal implements Codec.
func (JSON) Unmarshal(data []byte, target any) error { return json.Unmarshal(data, target) }

// encode keeps a panic of the codec, or of the embedder's methods that it
// calls, from going further.
func encode(codec Codec, value any) (payload []byte, err error) {
	defer recovered(&err)
	err = errPanicNil
	payload, err = codec.Marshal(value)
	if payload == nil && err == nil {
		payload = []byte{} // no bytes are a payload, too; none at all would be no output
	}
	return payload, err
}

// decode does the same for the way back, from a copy: others read the same bytes, siblings
// and later steps of the run, and codecs may change what they read, or methods of the
// embedder that package json calls.
func decode[T any](codec Codec, payload []byte) (value T, err error) {
	return decodeOwn[T](codec, bytes.Clone(payload))
}

// decodeOwn decodes bytes that are not needed any more.
func decodeOwn[T any](codec Codec, payload []byte) (value T, err error) {
	defer recovered(&err)
	err = errPanicNil
	err = codec.Unmarshal(payload, &value)
	return value, err
}

// decodeResult decodes what a step function returned once, into its type.
func decodeResult(codec Codec, payload []byte, as reflect.Type) (value any, err error) {
	defer recovered(&err)
	into := reflect.New(as)
	if err := codec.Unmarshal(bytes.Clone(payload), into.Interface()); err != nil {
		return nil, terminal(classDecoding, fmt.Errorf("decode the output that is taken over into %v: %w", as, err))
	}
	return into.Elem().Interface(), nil
}

// errPanicNil is what an error is until the embedder's code has returned one: under
// GODEBUG=panicnil=1, a panic of nil recovers to nothing.
var errPanicNil = errors.New("panic: nil")

// recovered turns a panic of the embedder's code into an error.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("panic: %s", panics.Text(cause))
	}
}

func decodeInput[I any](codec Codec, from actors.Inputs) (in I, err error) {
	if from.Once && from.LargeInput {
		in, err = decodeOwn[I](codec, from.Input)
	} else {
		in, err = decode[I](codec, from.Input)
	}
	if err != nil {
		return in, terminal(classDecoding, fmt.Errorf("decode the run's input into %v: %w", reflect.TypeFor[I](), err))
	}
	return in, nil
}

// errNotLoaded is a bug of ours: large outputs are loaded before an attempt.
var errNotLoaded = errors.New("the output was not loaded")

func decodeOutput[T any](codec Codec, from parentOutcome) (value T, err error) {
	if from.Large && from.Output == nil {
		return value, fmt.Errorf("read parent %q: %w", from.Step, errNotLoaded)
	}
	if from.own {
		value, err = decodeOwn[T](codec, from.Output)
	} else {
		value, err = decode[T](codec, from.Output)
	}
	if err != nil {
		return value, terminal(classDecoding, fmt.Errorf("decode the output of %q into %v: %w", from.Step, reflect.TypeFor[T](), err))
	}
	return value, nil
}
