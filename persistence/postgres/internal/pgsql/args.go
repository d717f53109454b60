package pgsql

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/workflow"
)

// Storable reports whether a column of text takes a value: none has a NUL, or
// bytes that are not UTF-8.
func Storable(text string) bool { return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) }

// LabelText returns labels as the text of a JSON object, nil if there are none.
func LabelText(labels map[string]string) (*string, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(labels); err != nil {
		return nil, err
	}
	s := text.String()
	return &s, nil
}

// StorableLabels reports whether a run can have these labels.
func StorableLabels(labels map[string]string) bool {
	for name, value := range labels {
		if !Storable(name) || !Storable(value) {
			return false
		}
	}
	return true
}

// TextOrNull is a text as an argument, in which "" is null.
func TextOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// MadeAt returns the instant in an id.
func MadeAt(id workflow.RunID) time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// childShift makes room for the kind of the edge and whether a condition hangs
// on it.
const (
	childShift       = 3
	childConditioned = 1 << 2
	childKind        = 1<<2 - 1
)

// PackChildren returns children as a column of numbers.
func PackChildren(children []workflow.Child) []int32 {
	packed := make([]int32, len(children))
	for i, c := range children {
		packed[i] = c.Step<<childShift | int32(c.Kind)
		if c.Conditioned {
			packed[i] |= childConditioned
		}
	}
	return packed
}

// UnpackChildren reads what PackChildren has written.
func UnpackChildren(packed []int32) []workflow.Child {
	if len(packed) == 0 {
		return nil
	}
	children := make([]workflow.Child, len(packed))
	for i, p := range packed {
		children[i] = workflow.Child{
			Step: p >> childShift, Kind: workflow.EdgeKind(p & childKind), Conditioned: p&childConditioned != 0,
		}
	}
	return children
}

// Wrote returns a function that fails the transaction unless a statement wrote
// as many rows as were decided on.
func Wrote(want int) func(pgx.Row) error {
	return func(row pgx.Row) error {
		var got int
		if err := row.Scan(&got); err != nil {
			return err
		}
		if got != want {
			return pgerr.ErrRowsLost
		}
		return nil
	}
}
