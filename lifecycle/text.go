package lifecycle

import (
	"database/sql/driver"
	"fmt"
	"strings"
)

// code is a stored number that people know by a name. The zero value is none of them: it is
// an empty text, and null in SQL.
type code interface {
	~uint8
	String() string
}

// ParseState reads the name of a state.
func ParseState(name string) (State, error) {
	return parse("state", States(), name)
}

// MarshalText implements encoding.TextMarshaler: a state is its name in JSON and logs.
func (s State) MarshalText() ([]byte, error) { return text(s), nil }

// UnmarshalText implements encoding.TextUnmarshaler for a name.
func (s *State) UnmarshalText(text []byte) error { return take(s, ParseState, string(text)) }

// Value implements driver.Valuer: a state is its name in SQL, as in the views.
func (s State) Value() (driver.Value, error) { return value(s), nil }

// Scan implements sql.Scanner for a name.
func (s *State) Scan(from any) error { return scan(s, ParseState, from) }

// EventKinds lists every kind, in the order of their codes.
func EventKinds() []EventKind {
	var kinds []EventKind
	for k := EventQueued; k <= EventSignalRefused; k++ {
		if k.String() != unknownKind {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ParseEventKind reads the name of a kind.
func ParseEventKind(name string) (EventKind, error) {
	return parse("kind of event", EventKinds(), name)
}

// MarshalText implements encoding.TextMarshaler: a kind is its name in JSON and logs.
func (k EventKind) MarshalText() ([]byte, error) { return text(k), nil }

// UnmarshalText implements encoding.TextUnmarshaler for a name.
func (k *EventKind) UnmarshalText(text []byte) error { return take(k, ParseEventKind, string(text)) }

// Value implements driver.Valuer: a kind is its name in SQL, as in the views.
func (k EventKind) Value() (driver.Value, error) { return value(k), nil }

// Scan implements sql.Scanner for a name.
func (k *EventKind) Scan(from any) error { return scan(k, ParseEventKind, from) }

// ParseDeadReason reads the name of a reason.
func ParseDeadReason(name string) (DeadReason, error) { return parse("reason", DeadReasons(), name) }

// MarshalText implements encoding.TextMarshaler: a reason is its name in JSON and logs.
func (r DeadReason) MarshalText() ([]byte, error) { return text(r), nil }

// UnmarshalText implements encoding.TextUnmarshaler for a name.
func (r *DeadReason) UnmarshalText(text []byte) error { return take(r, ParseDeadReason, string(text)) }

// Value implements driver.Valuer: a reason is its name in SQL, as in the views.
func (r DeadReason) Value() (driver.Value, error) { return value(r), nil }

// Scan implements sql.Scanner for a name.
func (r *DeadReason) Scan(from any) error { return scan(r, ParseDeadReason, from) }

// parse returns the code that has a name.
func parse[C code](what string, codes []C, name string) (C, error) {
	names := make([]string, len(codes))
	for i, c := range codes {
		if names[i] = c.String(); names[i] == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("there is no %s %q: use one of %s", what, name, strings.Join(names, ", "))
}

// text is a code as text.
func text[C code](c C) []byte {
	if c == 0 {
		return []byte{}
	}
	return []byte(c.String())
}

// value is a code for a driver of a database.
func value[C code](c C) driver.Value {
	if c == 0 {
		return nil
	}
	return c.String()
}

// take sets a code to the one that has a name.
func take[C code](to *C, parse func(string) (C, error), name string) error {
	if name == "" {
		*to = 0
		return nil
	}
	c, err := parse(name)
	if err == nil {
		*to = c
	}
	return err
}

// scan is take for what a driver of a database gives.
func scan[C code](to *C, parse func(string) (C, error), from any) error {
	switch from := from.(type) {
	case nil:
		*to = 0
		return nil
	case string:
		return take(to, parse, from)
	case []byte:
		return take(to, parse, string(from))
	}
	return fmt.Errorf("a name cannot be read from %T: select it from a view such as run_list, which has names", from)
}
