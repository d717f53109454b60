package actors

import "errors"

// Why the context of an attempt has ended: its cause.
var (
	// ErrCanceled: the run was asked to stop.
	ErrCanceled = errors.New("run was asked to stop")
	// ErrAttemptTimeout: the attempt took longer than its timeout.
	ErrAttemptTimeout = errors.New("attempt timed out")
	// ErrHeartbeatTimeout: the attempt was silent for longer than its
	// heartbeat timeout.
	ErrHeartbeatTimeout = errors.New("attempt sent no heartbeat in time")
	// ErrLeaseLost: this pod may no longer write for the task; another one may
	// be executing it.
	ErrLeaseLost = errors.New("lease of the task was lost")
	// ErrStopping: the pod stops; the task is handed back and not charged.
	ErrStopping = errors.New("pod is stopping")
)

// Why a pod has ended.
var (
	// ErrSupervision: an actor failed more often than its supervisor allows. The
	// pod's own actor may not fail at all.
	ErrSupervision = errors.New("an actor failed too often")
	// ErrActorGone: the embedder's code has ended the goroutine of an actor
	// (runtime.Goexit, as testing's FailNow does).
	ErrActorGone = errors.New("runtime.Goexit in Config.Metrics has ended an actor")
	// ErrPodStopped: the pod's actor was stopped from outside.
	ErrPodStopped = errors.New("the pod's actor was stopped from outside")
)

// terminalError marks an error as final.
type terminalError struct{ err error }

// Terminal returns err marked so that the attempt that returns it is the last,
// whatever the retry policy says. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

// Error implements error.
func (e terminalError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e terminalError) Unwrap() error { return e.err }

// IsTerminal reports whether err, or an error it wraps, was marked by Terminal.
func IsTerminal(err error) bool {
	var marked terminalError
	return errors.As(err, &marked)
}

// classError gives an error a class.
type classError struct {
	class string
	err   error
}

// WithClass returns err with a class, by which operators sort failures. WithClass of nil
// is nil.
func WithClass(class string, err error) error {
	if err == nil {
		return nil
	}
	return classError{class, err}
}

// Error implements error.
func (e classError) Error() string { return e.err.Error() }

// Unwrap returns the error that has the class.
func (e classError) Unwrap() error { return e.err }

// ErrorClass returns the class that WithClass gave to err, or to an error it
// wraps, the outermost first; "" if there is none.
func ErrorClass(err error) string {
	var classed classError
	_ = errors.As(err, &classed)
	return classed.class
}
