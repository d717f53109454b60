package troupe

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/lifecycle"
)

// ElementOutcome is how an element of a [MapSettled] ended. In JSON an element that completed has its
// output alone, because lists of them are long.
type ElementOutcome[R any] struct {
	Output R      // of an element that completed
	State  State  // StateCompleted, StateFailed or StateCanceled
	Class  string // of its error; see [Class]
	Error  string // its text; 1 KiB of it is kept here
}

// Value returns what the function of the element returned if the element completed. Otherwise the
// error is [ErrStepCanceled] or a [*StepError], which does not name the element.
func (o ElementOutcome[R]) Value() (R, error) {
	switch o.State { //nolint:exhaustive // every other state is not an ending of an element
	case lifecycle.Completed:
		return o.Output, nil
	case lifecycle.Canceled:
		return o.Output, ErrStepCanceled
	case 0:
		return o.Output, ErrStepSkipped
	}
	return o.Output, &StepError{Class: o.Class, Text: o.Error}
}

// Completed reports whether the element completed.
func (o ElementOutcome[R]) Completed() bool { return o.State == lifecycle.Completed }

// elementFailure is an element in JSON that did not complete.
type elementFailure struct {
	State State  `json:"state"`
	Class string `json:"class,omitempty"`
	Error string `json:"error"`
}

// MarshalJSON implements json.Marshaler.
func (o ElementOutcome[R]) MarshalJSON() ([]byte, error) {
	if o.State == lifecycle.Completed {
		return json.Marshal(struct {
			Output R `json:"output"`
		}{o.Output})
	}
	return json.Marshal(elementFailure{o.State, o.Class, o.Error})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ElementOutcome[R]) UnmarshalJSON(text []byte) error {
	var form struct {
		elementFailure

		Output R `json:"output"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return err
	}
	*o = ElementOutcome[R]{Output: form.Output, State: form.State, Class: form.Class, Error: form.Error}
	if o.State == 0 {
		o.State = lifecycle.Completed
	}
	return nil
}
