package fidelity

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// itself looks at a type that encodes itself, whose methods are taken at their word
// unless they are those of an embedded field, or nothing decodes what they write.
func (l *look) itself(t reflect.Type, addressable bool, self opaque, path string) {
	for t.Kind() == reflect.Pointer {
		t, addressable = t.Elem(), true
	}
	if t.Kind() == reflect.Struct {
		if from, dropped := promotion(t, addressable, self); dropped != "" {
			l.lose(path, fmt.Sprintf("is a %v, which has %s only by its embedded field %s: JSON drops %s", t, self.method(), from, dropped),
				"give the embedded field a name, or give the type MarshalJSON and UnmarshalJSON")
			return
		}
	}
	if l.decodable(t, self) {
		return
	}
	l.sink(path, fmt.Sprintf("is a %v, which has %s and nothing that decodes what it writes", t, self.method()),
		"give the type "+strings.Replace(self.method(), "Marshal", "Unmarshal", 1))
}

func (o opaque) method() string {
	if o == asText {
		return "MarshalText"
	}
	return "MarshalJSON"
}

// decodable reports whether what a type writes of itself can be decoded into it, as far
// as the type tells: a struct without exported fields, or what is no text, needs a method.
func (*look) decodable(t reflect.Type, self opaque) bool {
	pointer := reflect.PointerTo(t)
	switch {
	case t.Kind() == reflect.Interface, pointer.Implements(jsonUnmarshaler), pointer.Implements(textUnmarshaler):
		return true
	case t.Kind() == reflect.Struct:
		return self == asJSON && len(fieldsOf(t).list) > 0
	case self == asText:
		return t.Kind() == reflect.String || t.Kind() == reflect.Slice
	}
	return true
}

// promotion returns the embedded field by which alone a struct encodes itself, and the
// exported fields that are not encoded then; "", "": it has a method of its own, or
// there are none.
func promotion(t reflect.Type, addressable bool, self opaque) (from, dropped string) {
	if !promoted(t, addressable, self) {
		return "", ""
	}
	at := promoter(t, addressable, self)
	var names []string
	for _, f := range fieldsOf(t).list {
		if f.index[0] != at {
			names = append(names, f.path)
		}
	}
	if at < 0 || len(names) == 0 {
		return "", ""
	}
	if more := len(names) - droppedShown; more > 0 {
		names = append(names[:droppedShown], fmt.Sprintf("%d more", more))
	}
	return t.Field(at).Name, strings.Join(names, ", ")
}

// droppedShown bounds the fields that one loss names.
const droppedShown = 5

// promoter returns the index of the embedded field whose method a struct has; the one
// that is embedded least deep wins. -1: there is none.
func promoter(t reflect.Type, addressable bool, self opaque) int {
	at, least := -1, 0
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || !has(f.Type, addressable, self) {
			continue
		}
		if deep := depth(f.Type, addressable, self); at < 0 || deep < least {
			at, least = i, deep
		}
	}
	return at
}

// has reports whether a type, or where package json can take its address a pointer to
// it, has the method.
func has(t reflect.Type, addressable bool, self opaque) bool {
	of := jsonMarshaler
	if self == asText {
		of = textMarshaler
	}
	return t.Implements(of) || addressable && t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(of)
}

// depth returns how many embedded structs are between a type and its method.
func depth(t reflect.Type, addressable bool, self opaque) int {
	if t.Kind() == reflect.Pointer {
		t, addressable = t.Elem(), true
	}
	if t.Kind() != reflect.Struct || !promoted(t, addressable, self) {
		return 0
	}
	at := promoter(t, addressable, self)
	if at < 0 {
		return 0
	}
	return 1 + depth(t.Field(at).Type, addressable, self)
}

// promoted reports whether a struct has its method by embedding. Reflection does not
// tell, but the compiler makes a wrapper for such a method, which is in no file. A
// generic type has wrappers for its own methods, too: it is taken at its word.
func promoted(t reflect.Type, addressable bool, self opaque) bool {
	switch {
	case promoter(t, addressable, self) < 0:
		return false
	case t.Name() == "":
		return true // only a type with a name has methods of its own
	case strings.Contains(t.Name(), "["):
		return false
	}
	if !has(t, false, self) { // a value has a wrapper, too, where the method is the pointer's
		t = reflect.PointerTo(t)
	}
	var m reflect.Method
	var ok bool
	if self == asText { // a constant name: the linker keeps no other method because of it
		m, ok = t.MethodByName("MarshalText")
	} else {
		m, ok = t.MethodByName("MarshalJSON")
	}
	return ok && wrapper(m.Func.Pointer())
}

// wrapperMax bounds the bytes of a function that are looked at.
const wrapperMax = 4096

// wrapper reports whether the compiler has generated the function at an address. Where
// the method was inlined into it, its first instructions are those of the method: so it
// looks at all.
func wrapper(entry uintptr) bool {
	for pc := entry; pc < entry+wrapperMax; pc++ {
		f := runtime.FuncForPC(pc)
		if f == nil || f.Entry() != entry {
			return false
		}
		if file, _ := f.FileLine(pc); file == "<autogenerated>" {
			return true
		}
	}
	return false
}
