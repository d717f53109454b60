package troupe

import (
	"context"
	"errors"
	"time"
)

// caller wraps the context that the embedder passes to a call. A context of the
// embedder's own type may panic, or end without an error. Package context calls it
// on goroutines of its own, where both would end the process. caller contains both.
type caller struct{ of context.Context } //nolint:containedctx // it is a context itself

// ofCaller returns the context of a caller as the engine can use it.
func ofCaller(ctx context.Context) context.Context {
	if ctx == nil {
		return nil // the call panics at once, as with any nil context
	}
	return caller{of: ctx}
}

var errContextPanicked = errors.New("the caller's context panicked when it was asked for its error")

// Deadline implements context.Context.
func (c caller) Deadline() (deadline time.Time, ok bool) {
	defer func() { _ = recover() }()
	return c.of.Deadline()
}

// Done implements context.Context.
func (c caller) Done() (done <-chan struct{}) {
	defer func() { _ = recover() }()
	return c.of.Done()
}

// Err implements context.Context.
func (c caller) Err() (err error) {
	defer func() {
		if recover() != nil {
			err = errContextPanicked
		}
	}()
	if err := c.of.Err(); err != nil {
		return err
	}
	select {
	case <-c.Done():
		return context.Canceled
	default:
		return nil
	}
}

// Value implements context.Context.
func (c caller) Value(key any) (value any) {
	defer func() { _ = recover() }()
	return c.of.Value(key)
}
