package fidelity

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math/big"
	"math/bits"
	"reflect"
	"strings"
	"unicode/utf8"
)

// wholeBits is how many bits of an integer a float64 holds.
const wholeBits = 53

// holds reports whether a float64 holds an integer with this absolute value.
func holds(n uint64) bool { return bits.Len64(n)-bits.TrailingZeros64(n) <= wholeBits }

func (w *walk) signed(n int64) *LossError {
	if n < 0 {
		return w.unsigned(-uint64(n)) //nolint:gosec // the absolute value, also of the least int64
	}
	return w.unsigned(uint64(n))
}

func (w *walk) unsigned(n uint64) *LossError {
	if !w.dynamic || holds(n) {
		return nil
	}
	return lossOfDigits()
}

func lossOfDigits() *LossError {
	return &LossError{
		Text:   "is an integer beyond 2^53 in an any: it comes back as a float64, which loses digits",
		Remedy: "declare it with its own type, such as int64, or pass it as a string",
	}
}

func (w *walk) string(v reflect.Value) *LossError {
	text := v.String()
	switch {
	case v.Type() == jsonNumber:
		if w.dynamic && !holdsNumber(text) {
			return lossOfDigits()
		}
	case !utf8.ValidString(text):
		return notText("", "is text that")
	}
	return nil
}

// digitsMax is the number of digits that every float64 holds.
const digitsMax = 15

// doubleDigitsMax is more digits than the largest float64 has before its point.
const doubleDigitsMax = 310

// holdsNumber reports whether a float64 holds a number of JSON. Only those without
// fraction and exponent are looked at.
func holdsNumber(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	switch {
	case len(digits) <= digitsMax, strings.ContainsAny(digits, ".eE"):
		return true
	case len(digits) > doubleDigitsMax:
		return false
	}
	n, ok := new(big.Int).SetString(digits, 10)
	return !ok || n.BitLen()-int(n.TrailingZeroBits()) <= wholeBits //nolint:gosec // at most 310 digits
}

// opaque looks at the text or the JSON that a value makes of itself.
func (w *walk) opaque(v reflect.Value, self opaque) *LossError {
	if !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() || !w.text && self == asText || !w.dynamic && self == asJSON {
		return nil
	}
	value := v.Interface()
	if v.CanAddr() && v.Kind() != reflect.Pointer {
		value = v.Addr().Interface()
	}
	if m, ok := value.(encoding.TextMarshaler); ok && self == asText {
		if text, _ := m.MarshalText(); !utf8.Valid(text) {
			return notText("", "has a text that")
		}
		return nil
	}
	encoded, _ := json.Marshal(value) // which has worked before
	if !longDigits(encoded) {
		return nil
	}
	tokens := json.NewDecoder(bytes.NewReader(encoded))
	tokens.UseNumber()
	for token, err := tokens.Token(); err == nil; token, err = tokens.Token() {
		if n, ok := token.(json.Number); ok && !holdsNumber(n.String()) {
			return lossOfDigits()
		}
	}
	return nil
}

// longDigits reports whether there are more digits in a row than every float64 holds.
func longDigits(encoded []byte) bool {
	run := 0
	for _, c := range encoded {
		if c < '0' || c > '9' {
			run = 0
			continue
		}
		if run++; run > digitsMax {
			return true
		}
	}
	return false
}
