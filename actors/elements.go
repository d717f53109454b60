package actors

import (
	"strings"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// Elements are how the elements of a map have ended, by item. A hundred thousand of them take
// little more memory than their outputs.
type Elements struct {
	outputs []byte // of all that completed
	ends    []elementEnd
	failed  map[int]persistence.Outcome // those that did not complete, without outputs
	ended   int                         // so many are known
	after   int32                       // the task behind which the next page begins
}

// elementEnd says where the output of an element is. State 0: the element is not known yet.
type elementEnd struct {
	from, to int32
	state    lifecycle.State
}

// failureTextMax bounds the error of an element that a map passes on, in bytes.
const failureTextMax = 1 << 10

// Len returns how many elements there are.
func (e *Elements) Len() int { return len(e.ends) }

// At returns how the element of an item has ended. The bytes of its output are the caller's.
func (e *Elements) At(item int) persistence.Outcome {
	end := e.ends[item]
	if end.state != lifecycle.Completed {
		return e.failed[item]
	}
	return persistence.Outcome{State: end.state, Output: e.outputs[end.from:end.to:end.to]}
}

// add adds a page.
func (e *Elements) add(rows []persistence.TaskRow) {
	for i := range rows {
		t := &rows[i]
		item := int(lifecycle.ElementOf(t.Name))
		if item < 0 || item >= len(e.ends) || e.ends[item].state != 0 || !t.State.Terminal() {
			continue
		}
		from := len(e.outputs)
		if t.State == lifecycle.Completed {
			e.outputs = append(e.outputs, t.Output...)
		} else {
			if e.failed == nil {
				e.failed = map[int]persistence.Outcome{}
			}
			e.failed[item] = persistence.Outcome{State: t.State, Class: t.Class, Error: beginning(t.Error)}
		}
		e.ends[item] = elementEnd{int32(from), int32(len(e.outputs)), t.State}
		e.ended++
	}
}

// beginning is what a map passes on of the error of an element.
func beginning(text string) string {
	if len(text) <= failureTextMax {
		return text
	}
	return strings.ToValidUTF8(text[:failureTextMax], "") + "…"
}
