package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/program"
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

// depthMax is how deep a value package json decodes; it encodes deeper ones.
const depthMax = 10_000

var errTooDeep = errors.New("values are nested more than 10,000 deep: no pod could decode them")

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

// errNotLoaded is a bug of ours: large outputs are loaded before an attempt.
var errNotLoaded = errors.New("the output was not loaded")

func decodeOutput[T any](codec Codec, from parentOutcome) (value T, err error) {
	if from.Large && from.Output == nil {
		return value, fmt.Errorf("read parent %q: %w", from.Step, errNotLoaded)
	}
	if from.own {
		value, err = program.DecodeOwn[T](codec, from.Output)
	} else {
		value, err = program.Decode[T](codec, from.Output)
	}
	if err != nil {
		return value, terminal(classDecoding, fmt.Errorf("decode the output of %q into %v: %w", from.Step, reflect.TypeFor[T](), err))
	}
	return value, nil
}
