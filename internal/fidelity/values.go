package fidelity

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// replaced is what package json writes for bytes that are not UTF-8. It writes the
// replacement character itself as it is.
var replaced = []byte(`\ufffd`)

// Check returns, as a [*LossError], why the JSON of a value does not come back as the
// value; nil: it does. encoded is that JSON. Values without text, any and maps whose
// keys make their own text are not looked at.
func Check(value any, encoded []byte) error {
	switch value.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return nil
	}
	k := kindOf(reflect.TypeOf(value))
	if len(k.losses) > 0 {
		return k.losses[0]
	}
	text := k.text && bytes.Contains(encoded, replaced)
	if !text && !k.walk {
		return nil
	}
	switch value.(type) {
	case map[string]any, []any: // all of their parts are in an any
		return found((&walk{text: text, dynamic: true}).inAny(value))
	}
	return found((&walk{text: text}).at(reflect.ValueOf(value), k))
}

// CheckAny is Check for a value that is decoded into an any, where numbers become
// float64.
func CheckAny(value any, encoded []byte) error {
	w := &walk{text: bytes.Contains(encoded, replaced), dynamic: true}
	return found(w.inAny(value))
}

// found keeps a nil loss from becoming an error.
func found(loss *LossError) error {
	if loss == nil {
		return nil
	}
	return loss
}

// walk looks at a value part by part. Its methods return the first loss, whose path
// begins where they were called.
type walk struct {
	text    bool // look for text that is not UTF-8
	dynamic bool // inside an any, which is decoded without the types of its parts
}

// needs reports whether values of a kind have to be looked at.
func (w *walk) needs(k *kind) bool { return k.walk || w.text && k.text || w.dynamic && k.whole }

// at looks at a value whose type is known to the reader of its JSON, unless the walk
// is dynamic.
func (w *walk) at(v reflect.Value, k *kind) *LossError {
	self := k.self
	if v.CanAddr() {
		self = k.placed
	}
	switch {
	case self != 0:
		return w.opaque(v, self)
	case !w.needs(k):
		return nil
	}
	switch v.Kind() { //nolint:exhaustive // the other kinds lose nothing
	case reflect.String:
		return w.string(v)
	case reflect.Int, reflect.Int64:
		return w.signed(v.Int())
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return w.unsigned(v.Uint())
	case reflect.Interface:
		return w.in(v)
	case reflect.Pointer:
		if !v.IsNil() {
			return w.at(v.Elem(), kindOf(v.Type().Elem()))
		}
	case reflect.Slice, reflect.Array:
		switch {
		case v.Kind() == reflect.Slice && isBytes(v.Type()):
			return nil
		case v.Type() == anys && v.CanInterface():
			return (&walk{text: w.text, dynamic: true}).inAny(v.Interface())
		}
		elements := kindOf(v.Type().Elem())
		for i := range v.Len() {
			if loss := w.at(v.Index(i), elements); loss != nil {
				return loss.under(fmt.Sprintf("[%d]", i))
			}
		}
	case reflect.Map:
		if v.Type() == anyMap && v.CanInterface() {
			return (&walk{text: w.text, dynamic: true}).inAny(v.Interface())
		}
		return w.entries(v)
	case reflect.Struct:
		return w.fields(v, k)
	default: // nothing to lose
	}
	return nil
}

// Lists and maps of any need no reflection.
var (
	anys   = reflect.TypeFor[[]any]()
	anyMap = reflect.TypeFor[map[string]any]()
)

// in looks at what an interface holds.
func (w *walk) in(v reflect.Value) *LossError {
	if v.IsNil() || !v.Elem().CanInterface() {
		return nil
	}
	inside := &walk{text: w.text, dynamic: w.dynamic || v.NumMethod() == 0}
	return inside.inAny(v.Elem().Interface())
}

// inAny is at for what an interface holds. Most of that is of few types.
func (w *walk) inAny(value any) *LossError {
	switch value := value.(type) {
	case nil, bool, float64, float32, int32, uint32, int16, uint16, int8, uint8:
		return nil
	case string:
		if !w.text {
			return nil
		}
	case int:
		return w.signed(int64(value))
	case int64:
		return w.signed(value)
	case []any:
		for i := range value {
			if loss := w.inAny(value[i]); loss != nil {
				return loss.under(fmt.Sprintf("[%d]", i))
			}
		}
		return nil
	case map[string]any:
		if !w.text {
			for _, element := range value {
				if w.inAny(element) != nil {
					return w.entries(reflect.ValueOf(value)) // in the order of the keys
				}
			}
			return nil
		}
		return w.entries(reflect.ValueOf(value))
	}
	v := reflect.ValueOf(value)
	k := kindOf(v.Type())
	if len(k.losses) > 0 {
		loss := *k.losses[0]
		return &loss
	}
	return w.at(v, k)
}

func (w *walk) fields(v reflect.Value, k *kind) *LossError {
	for i := range k.fields {
		f := &k.fields[i]
		value, err := v.FieldByIndexErr(f.index)
		if err != nil { // it is in an embedded pointer that is nil
			continue
		}
		if loss := w.at(value, kindOf(f.of)); loss != nil {
			return loss.under(f.path)
		}
	}
	return nil
}

// entry is one key of a map with its text in JSON.
type entry struct {
	text string
	key  reflect.Value
}

// entries looks at a map in the order of the texts of its keys, so that the same
// value always gives the same error.
func (w *walk) entries(v reflect.Value) *LossError {
	own := keyText(v.Type().Key())
	list := make([]entry, 0, v.Len())
	for _, key := range v.MapKeys() {
		list = append(list, entry{textOf(key, own), key})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	elements := kindOf(v.Type().Elem())
	for i, e := range list {
		switch {
		case !utf8.ValidString(e.text):
			return notText(fmt.Sprintf("[%.100q]", e.text), "has a key that")
		case i > 0 && list[i-1].text == e.text:
			return &LossError{
				Path: fmt.Sprintf("[%.100q]", e.text), Text: "are two entries: the keys of both have this text, and JSON keeps one of them",
				Remedy: "let MarshalText give different keys different texts",
			}
		}
		if loss := w.at(v.MapIndex(e.key), elements); loss != nil {
			return loss.under(fmt.Sprintf("[%.100q]", e.text))
		}
	}
	return nil
}

// textOf returns the text of a key in JSON.
func textOf(key reflect.Value, own bool) string {
	switch {
	case key.Kind() == reflect.String:
		return key.String()
	case own && key.Kind() == reflect.Pointer && key.IsNil():
		return ""
	case own && key.CanInterface():
		if m, ok := key.Interface().(encoding.TextMarshaler); ok {
			text, _ := m.MarshalText() // package json has reported its error
			return string(text)
		}
	}
	return fmt.Sprint(key)
}

// under puts a field, an element or an entry before the path of a loss.
func (e *LossError) under(part string) *LossError {
	if e.Path == "" || e.Path[0] == '[' {
		e.Path = part + e.Path
	} else {
		e.Path = part + "." + e.Path
	}
	return e
}

func notText(path, what string) *LossError {
	return &LossError{
		Path: path, Text: what + " is not UTF-8: JSON replaces the bytes that are not",
		Remedy: "make it a []byte, or replace them with strings.ToValidUTF8",
	}
}
