package persistence

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// RunOptions hold for every step of a run, and every activity of a machine, in place of what its
// program says: they are given to the run that continues one from a dead letter. Activations of
// machines keep their own, and so do maps before their first and after their last element.
type RunOptions struct {
	Retry          *workflow.RetryPolicy `json:"retry,omitempty"`           // nil: as the program says
	AttemptTimeout time.Duration         `json:"attempt_timeout,omitempty"` // 0: the same
}

// Encode returns the options as a store keeps them: "" if there are none.
func (o RunOptions) Encode() string {
	if o == (RunOptions{}) {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil { // of a factor that is no number, which CheckRetry refuses
		return ""
	}
	return string(text)
}

// DecodeRunOptions undoes Encode. Fields of later versions are passed over.
func DecodeRunOptions(text string) (o RunOptions, err error) {
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return RunOptions{}, fmt.Errorf("options of a run: %w", err)
	}
	return o, nil
}
