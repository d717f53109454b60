package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Line prints a value as JSON on one line.
func Line(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = fmt.Fprintln(out, Visible(string(text)))
	}
	return err
}

// Lines prints each value as JSON on a line of its own.
func Lines[T any](out io.Writer, values []T) error {
	for i := range values {
		if err := Line(out, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// Document prints a value as JSON on several lines, for programs and for people.
func Document(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// Instant is an instant in JSON; the zero one is null.
func Instant(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

// Optional is a text in JSON; the empty one is null.
func Optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Payload is a payload in JSON: as it is if it is JSON, else its bytes in base64.
func Payload(payload []byte) any {
	switch {
	case payload == nil:
		return nil
	case json.Valid(payload):
		return json.RawMessage(payload)
	}
	return payload
}
