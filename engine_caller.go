package troupe

import (
	"context"
	"errors"
	"time"
)

// caller is the context of whoever calls the engine. It may be of a type of their own,
// and what is derived from it is asked about it on goroutines of package context, where a
// panic ends the process, as does an end without an error. This one does neither.
type caller struct{ of context.Context } //nolint:containedctx // it is a context itself

// ofCaller returns the context of a caller as the engine can use it.
func ofCaller(ctx context.Context) context.Context {
	if ctx == nil {
		return nil // which its caller finds out soonest by itself
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
