// Package fidelity finds what package json would lose or alter without an error:
// types of which it keeps nothing, and values that come back as others.
package fidelity

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// LossError is one part of a type, or of a value, that JSON does not keep.
type LossError struct {
	Path   string // fields and elements, as in "Lines[].Note"; "": the whole
	Text   string // what is wrong with it
	Remedy string
}

// Error implements error.
func (e *LossError) Error() string {
	subject := e.Path
	if subject == "" {
		subject = "the value"
	}
	return subject + " " + e.Text + ": " + e.Remedy
}

// lossesMax bounds the losses that are reported of one type.
const lossesMax = 5

// Losses returns the parts of a type that JSON cannot hold, of which it keeps nothing,
// or that it cannot decode. Types that encode themselves are taken at their word.
func Losses(t reflect.Type) []*LossError {
	k := kindOf(t)
	all := append(slices.Clone(k.losses), k.oneWay...)
	return all[:min(len(all), lossesMax)]
}

// kind is what there is to check in the values of a type.
type kind struct {
	text   bool // strings, which have to be UTF-8
	whole  bool // numbers that may lose digits as elements of an any
	walk   bool // an any, or a map whose keys make their own text
	losses []*LossError
	oneWay []*LossError // what can be encoded and not be decoded: nothing is lost in an any
	self   opaque       // how a value encodes itself
	placed opaque       // the same where package json can take its address
	fields []field      // of a struct
}

// kinds has the kind of each type that was looked at: a *kind by reflect.Type. A
// program has a bounded number of types.
var kinds sync.Map

func kindOf(t reflect.Type) *kind {
	if known, ok := kinds.Load(t); ok {
		k, _ := known.(*kind)
		return k
	}
	look := look{seen: map[place]bool{}}
	look.self, look.placed = encodesItself(t, false), encodesItself(t, true)
	look.at(t, false, "")
	if t.Kind() == reflect.Struct {
		look.fields = fieldsOf(t).list
	}
	known, _ := kinds.LoadOrStore(t, &look.kind)
	k, _ := known.(*kind)
	return k
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonNumber      = reflect.TypeFor[json.Number]()
)

// opaque is how a type encodes itself; 0: it does not.
type opaque uint8

const (
	asJSON opaque = iota + 1
	asText
)

// encodesItself returns what package json calls on a value. Methods of pointers count
// where it can take the address.
func encodesItself(t reflect.Type, addressable bool) opaque {
	pointer := addressable && t.Kind() != reflect.Pointer
	switch {
	case t.Kind() == reflect.Interface: // the value in it decides
		return 0
	case t.Implements(jsonMarshaler), pointer && reflect.PointerTo(t).Implements(jsonMarshaler):
		return asJSON
	case t.Implements(textMarshaler), pointer && reflect.PointerTo(t).Implements(textMarshaler):
		return asText
	}
	return 0
}

// place is a type where package json can take the address of its values, or not.
type place struct {
	of          reflect.Type
	addressable bool
}

// look is a walk through a type.
type look struct {
	kind
	seen map[place]bool
}

func (l *look) lose(path, text, remedy string) {
	if len(l.losses) < lossesMax {
		l.losses = append(l.losses, &LossError{Path: path, Text: text, Remedy: remedy})
	}
}

func (l *look) sink(path, text, remedy string) {
	if len(l.oneWay) < lossesMax {
		l.oneWay = append(l.oneWay, &LossError{Path: path, Text: text, Remedy: remedy})
	}
}

const leaveOut = "leave it out with the tag `json:\"-\"`, or give the type MarshalJSON and UnmarshalJSON"

func (l *look) at(t reflect.Type, addressable bool, path string) {
	if l.seen[place{t, addressable}] {
		return
	}
	l.seen[place{t, addressable}] = true
	if self := encodesItself(t, addressable); self != 0 {
		l.whole, l.text = l.whole || self == asJSON, l.text || self == asText
		l.itself(t, addressable, self, path)
		return
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds lose nothing
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uintptr:
		l.whole = true
	case reflect.String:
		l.text = true
		l.whole = l.whole || t == jsonNumber
	case reflect.Interface:
		l.text, l.whole, l.walk = true, true, true
		if t.NumMethod() > 0 {
			l.sink(path, fmt.Sprintf("is of type %v, an interface with methods, into which JSON cannot be decoded", t),
				"use a type that is no interface, such as string for the text of an error, leave it out with the tag `json:\"-\"`, or use any")
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		l.lose(path, fmt.Sprintf("is a %v, which JSON cannot hold", t), leaveOut)
	case reflect.Pointer:
		l.at(t.Elem(), true, path)
	case reflect.Slice:
		if !isBytes(t) {
			l.at(t.Elem(), true, path+"[]")
		}
	case reflect.Array:
		l.at(t.Elem(), addressable, path+"[]")
	case reflect.Map:
		l.keys(t, path)
		l.at(t.Elem(), false, path+"[]")
	case reflect.Struct:
		l.structure(t, addressable, path)
	default: // booleans, small integers and floats
	}
}

// isBytes reports whether package json encodes a slice as base64.
func isBytes(t reflect.Type) bool {
	return t.Elem().Kind() == reflect.Uint8 && encodesItself(t.Elem(), true) == 0
}

// keyText reports whether keys of a map make their own text.
func keyText(key reflect.Type) bool {
	return key.Kind() != reflect.String && key.Implements(textMarshaler)
}

func (l *look) keys(t reflect.Type, path string) {
	switch key := t.Key(); key.Kind() { //nolint:exhaustive // all other kinds are refused alike
	case reflect.String:
		l.text = true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if keyText(key) {
			l.text, l.walk = true, true
		}
	default:
		if keyText(key) {
			l.text, l.walk = true, true
			if !reflect.PointerTo(key).Implements(textUnmarshaler) {
				l.sink(path, fmt.Sprintf("has keys of type %v, which has MarshalText and not UnmarshalText: it cannot be decoded", key), "give the type UnmarshalText")
			}
			return
		}
		l.lose(path, fmt.Sprintf("has keys of type %v, which JSON cannot hold", key),
			"use strings or integers as keys, or give the type MarshalText and UnmarshalText")
	}
}

func (l *look) structure(t reflect.Type, addressable bool, path string) {
	fields := fieldsOf(t)
	pointer := reflect.PointerTo(t)
	switch hidden := len(fields.list) == 0 && fields.hidden > 0 && !fields.excluded; {
	case hidden && !addressable && (pointer.Implements(jsonMarshaler) || pointer.Implements(textMarshaler)):
		l.lose(path, fmt.Sprintf("is a %v, of which JSON keeps nothing: only a pointer to it has the method that encodes it", t),
			fmt.Sprintf("use *%v", t))
	case hidden && !pointer.Implements(jsonUnmarshaler) && !pointer.Implements(textUnmarshaler):
		l.lose(path, fmt.Sprintf("is a %v, which has no exported field: JSON keeps nothing of it", t),
			"export its fields, or give the type MarshalJSON and UnmarshalJSON")
	}
	for _, twins := range fields.dropped {
		l.lose(join(path, twins[0].path), fmt.Sprintf("and %s have the same JSON name %q: JSON drops both", twins[1].path, twins[0].name),
			"give one of them another name in its json tag")
	}
	for _, f := range fields.unset {
		l.sink(join(path, f.path), fmt.Sprintf("is an embedded pointer to %v, which is not exported: package json cannot set it", f.of.Elem()),
			"embed the struct itself, or export its type")
	}
	for i := range fields.list {
		f := &fields.list[i]
		l.at(f.of, addressable || f.pointed, join(path, f.path))
	}
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// field is one field of a struct that package json encodes.
type field struct {
	name    string // in JSON
	path    string // in Go
	index   []int
	of      reflect.Type
	tagged  bool
	pointed bool // it is in an embedded pointer
}

// fields are those of one struct.
type fields struct {
	list     []field
	dropped  [][2]field // of the same name: none of them is encoded
	unset    []field    // embedded pointers that package json cannot set
	hidden   int        // that are not exported
	excluded bool       // there are some that a tag leaves out
}

// fieldsOf follows the rules of package json for embedded structs and for names that
// are used twice: the field that is embedded least wins, then the one with a tag.
func fieldsOf(t reflect.Type) fields {
	var all fields
	collect(t, field{}, map[reflect.Type]bool{}, &all)
	byName := map[string][]field{}
	for _, f := range all.list {
		byName[f.name] = append(byName[f.name], f)
	}
	out := fields{hidden: all.hidden, excluded: all.excluded, unset: all.unset}
	for _, f := range all.list {
		rivals := byName[f.name]
		best := dominant(rivals)
		switch {
		case len(best) == 1 && best[0].path == f.path:
			out.list = append(out.list, f)
		case len(best) > 1 && best[0].path == f.path:
			out.dropped = append(out.dropped, [2]field{best[0], best[1]})
		}
	}
	return out
}

// dominant returns the fields that no other of the same name wins over.
func dominant(rivals []field) (best []field) {
	for _, f := range rivals {
		switch {
		case len(best) == 0, len(f.index) < len(best[0].index),
			len(f.index) == len(best[0].index) && f.tagged && !best[0].tagged:
			best = []field{f}
		case len(f.index) == len(best[0].index) && f.tagged == best[0].tagged:
			best = append(best, f)
		}
	}
	return best
}

// collect adds the fields of a struct and of the structs embedded in it.
func collect(t reflect.Type, in field, above map[reflect.Type]bool, out *fields) {
	if above[t] {
		return
	}
	above[t] = true
	defer delete(above, t)
	for i := range t.NumField() {
		sf := t.Field(i)
		of := sf.Type
		if sf.Anonymous && of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		tag := sf.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case !sf.IsExported() && (!sf.Anonymous || of.Kind() != reflect.Struct):
			out.hidden++
			continue
		case tag == "-":
			out.excluded = true
			continue
		}
		f := field{
			name: name, path: join(in.path, sf.Name), of: sf.Type, tagged: name != "",
			index: append(append([]int{}, in.index...), i), pointed: in.pointed,
		}
		if sf.Anonymous && name == "" && of.Kind() == reflect.Struct {
			f.pointed = f.pointed || sf.Type.Kind() == reflect.Pointer
			before := len(out.list)
			collect(of, f, above, out)
			if sf.Type.Kind() == reflect.Pointer && !sf.IsExported() && len(out.list) > before {
				out.unset = append(out.unset, f)
			}
			continue
		}
		if name == "" {
			f.name = sf.Name
		}
		out.list = append(out.list, f)
	}
}
