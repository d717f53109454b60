package workflow

import (
	"database/sql/driver"
	"fmt"
)

// MarshalText implements encoding.TextMarshaler, so that an id is the text of a UUID
// in JSON, as a key of a map there, and in logs.
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler for the text form of a UUID.
func (id *RunID) UnmarshalText(text []byte) error {
	parsed, err := ParseRunID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// Value implements driver.Valuer: an id is a uuid for a database, and the zero value,
// which names no run, is null.
func (id RunID) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}

// Scan implements sql.Scanner for a uuid, or its text or 16 bytes; null gives the zero
// value.
func (id *RunID) Scan(from any) error {
	switch from := from.(type) {
	case nil:
		*id = RunID{}
		return nil
	case string:
		return id.UnmarshalText([]byte(from))
	case []byte:
		if len(from) == len(id) {
			*id = RunID(from)
			return nil
		}
		return id.UnmarshalText(from)
	case [16]byte:
		*id = from
		return nil
	}
	return fmt.Errorf("run id: cannot be read from %T: select a column of type uuid", from)
}
