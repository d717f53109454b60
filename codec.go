package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/fidelity"
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

// PlainCodec is a [Codec] that changes the bytes of another one without loss, as a
// cipher or a compressor does. With a [Key] the engine compares inputs by the bytes of
// the codec below, so that a random nonce does not make equal inputs differ; the
// SHA-256 of these bytes is stored with the key. Readers of the database can confirm a
// guess of an input with it: where they must not, let Plain return a codec whose
// Marshal is a keyed hash of the encoding, and whose own Plain is the codec below.
//
// A codec that embeds [JSON] has the method already. One whose bytes vary and that
// has no Plain is refused where a Key is given.
type PlainCodec interface {
	Codec
	// Plain returns the codec below.
	Plain() Codec
}

// PayloadPlace says what a [PayloadCodec] encodes or decodes. It is the same when bytes
// are made and whenever they are read, so a cipher can take a tenant's own key and
// authenticate all of it. Requeued runs read the payloads of the run before.
type PayloadPlace = actors.PayloadPlace

// PayloadKind says what a [PayloadPlace] is.
type PayloadKind = actors.PayloadKind

// The kinds of payloads.
const (
	PayloadInput    = actors.PayloadInput    // of a run; it has no step
	PayloadOutput   = actors.PayloadOutput   // of a step
	PayloadProgress = actors.PayloadProgress // of a step; see [Heartbeat]
	PayloadState    = actors.PayloadState    // of a state machine, see package statemachine
	PayloadItem     = actors.PayloadItem     // of an element of a [Map], whose name is PayloadPlace.Step, as "files[17]"
	PayloadSignal   = actors.PayloadSignal   // of a signal, whose name is PayloadPlace.Step; the output of a step that waited for it is the same bytes
)

// PayloadCodec is a [Codec] that is told which payload it encodes or decodes. The
// engine calls these methods instead of Marshal and Unmarshal.
type PayloadCodec interface {
	Codec
	MarshalFor(payload PayloadPlace, value any) ([]byte, error)
	UnmarshalFor(payload PayloadPlace, data []byte, target any) error
}

// JSON is the default codec: package encoding/json. Any JSON is a valid
// payload, also null, a bare number, or text with \u0000 in it.
//
// What package json would lose or alter without an error is refused. [Register]
// reports types that it cannot hold, such as channels, functions, and structs without
// an exported field or with the MarshalJSON of an embedded one, and types that it cannot
// decode, such as interfaces with methods. Marshal refuses text that is not UTF-8, keys of a map that have
// the same text, and integers in an any that lose digits as a float64.
type JSON struct{}

var _ PlainCodec = JSON{}

// Plain implements [PlainCodec], for codecs that embed JSON.
func (JSON) Plain() Codec { return JSON{} }

// depthMax is how deep a value package json decodes; it encodes deeper ones.
const depthMax = 10_000

var errTooDeep = errors.New("values are nested more than 10,000 deep: no pod could decode them")

// Marshal implements Codec. It refuses what Unmarshal could not read, or would read
// as another value.
func (JSON) Marshal(value any) ([]byte, error) {
	payload, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, err
	case len(payload) > depthMax && !json.Valid(payload):
		return nil, errTooDeep
	}
	if err := fidelity.Check(value, payload); err != nil {
		return nil, err
	}
	return payload, nil
}

// Unmarshal implements Codec.
func (JSON) Unmarshal(data []byte, target any) error { return json.Unmarshal(data, target) }

// plainMax bounds how many codecs lie one above the other.
const plainMax = 16

// plainOf returns the codec whose bytes tell whether inputs are equal, and whether that
// is another one than codec.
func plainOf(codec Codec) (plain Codec, below bool) {
	for range plainMax {
		of, ok := codec.(PlainCodec)
		if _, last := codec.(JSON); !ok || last {
			break
		}
		next := of.Plain()
		if next == nil {
			break
		}
		codec, below = next, true
	}
	return codec, below
}

// errNotLoaded is a bug of ours: large outputs are loaded before an attempt.
var errNotLoaded = errors.New("the output was not loaded")

// decodeOutput decodes the output of the parent at a place.
func decodeOutput[T any](codec Codec, from parentOutcome, at place) (value T, err error) {
	if from.Large && from.Output == nil {
		return value, fmt.Errorf("read parent %q: %w", from.Step, errNotLoaded)
	}
	decoder := program.OutputCodec(codec, at.outputOf())
	if from.own {
		value, err = program.DecodeOwn[T](decoder, from.Output)
	} else {
		value, err = program.Decode[T](decoder, from.Output)
	}
	if err != nil {
		return value, terminal(classDecoding, fmt.Errorf("decode the output of %q into %v: %w", from.Step, reflect.TypeFor[T](), err))
	}
	return value, nil
}
