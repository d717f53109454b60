package main

import (
	"errors"

	"github.com/troupe-dev/troupe"
)

// Exit codes. docs/command.md has the table.
const (
	exitFailed      = 1
	exitUsage       = 2   // the call was wrong: nothing was tried
	exitNotFound    = 3   // what the call names is not there
	exitRunEnded    = 4   // the run that was waited for has failed, or was canceled
	exitInterrupted = 130 // as shells have it
)

// notFoundError is that what the call names is not there.
type notFoundError struct{ error }

// Unwrap returns what is not there.
func (e *notFoundError) Unwrap() error { return e.error }

// exitOf returns the exit code for an error.
func exitOf(err error) int {
	var wrong *usageError
	var missing *notFoundError
	switch {
	case errors.As(err, &wrong):
		return exitUsage
	case errors.As(err, &missing), errors.Is(err, troupe.ErrRunNotFound), errors.Is(err, troupe.ErrStepNotFound), errors.Is(err, troupe.ErrDeadLetterNotFound):
		return exitNotFound
	case errors.Is(err, troupe.ErrRunFailed), errors.Is(err, troupe.ErrRunCanceled):
		return exitRunEnded
	}
	return exitFailed
}
