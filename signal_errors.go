package troupe

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
)

// Why a signal was refused, beside [ErrRunNotFound] and [ErrRefused]. Use errors.Is.
var (
	// ErrRunEnded: the run has ended, so that nothing can take the signal.
	ErrRunEnded = errors.New("run has ended")
	// ErrInboxFull: the run has 10,000 signals that no step has taken.
	ErrInboxFull = errors.New("too many signals wait in the run")
	// ErrUnknownSignal: no step of the run waits for signals of this name. The text of the
	// [SendError] lists the names that there are.
	ErrUnknownSignal = errors.New("unknown signal")
)

// SendError says why a signal was refused: the field at fault and the remedy. Nothing was
// stored, but for Unavailable, of which that is not known.
type SendError struct {
	Code   RefusalCode
	Field  string
	Remedy string
	Run    RunID // zero: it was not found, or not looked for
	cause  error
}

// sendError turns a refusal into the embedder's error.
func sendError(refused *actors.Refusal) error {
	return &SendError{
		Code: RefusalCode(refused.Code), Field: refused.Field, Remedy: refused.Remedy, Run: refused.Answer.Run, cause: refused.Answer.Err,
	}
}

// Error implements error.
func (e *SendError) Error() string {
	text := fmt.Sprintf("signal refused (%s)", e.Code)
	if !e.Run.IsZero() {
		text += fmt.Sprintf(": run %v", e.Run)
	}
	if e.Field != "" && (e.Field != "run" || e.Run.IsZero()) {
		text += ": " + e.Field
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap makes the error match ErrRunNotFound, ErrRunEnded, ErrInboxFull, ErrUnknownSignal or
// ErrUnavailable for that code, ErrRefused for the others, and its cause.
func (e *SendError) Unwrap() []error {
	sentinel, own := map[RefusalCode]error{
		RunNotFound: ErrRunNotFound, RunEnded: ErrRunEnded, InboxFull: ErrInboxFull, UnknownSignal: ErrUnknownSignal, Unavailable: ErrUnavailable,
	}[e.Code]
	if !own {
		sentinel = ErrRefused
	}
	if e.cause != nil {
		return []error{sentinel, e.cause}
	}
	return []error{sentinel}
}
