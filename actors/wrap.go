package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// wrapped is one call of a step function inside of the embedder's Wrap.
type wrapped struct {
	function *StepFunction
	inputs   Inputs
	attempt  Attempt

	mu       sync.Mutex
	begun    bool          // next was called
	returned bool          // the function has returned, panicked or ended its goroutine
	closed   bool          // Wrap has
	left     chan struct{} // closed when the function leaves; nil: Wrap does not wait for that
	output   Output
	err      error
	ended    bool // the function has returned output and err
}

// callWrapped calls the embedder's function, inside of Wrap if there is one. The error of
// Wrap is the attempt's, unless the task is to be handed back.
func callWrapped(ctx context.Context, f *StepFunction, inputs Inputs) (Output, error) {
	if f.Wrap == nil {
		return f.Call(ctx, inputs)
	}
	w := &wrapped{function: f, inputs: inputs, attempt: AttemptFrom(ctx)}
	return w.result(w.around(ctx))
}

func (w *wrapped) around(ctx context.Context) error {
	defer w.close()
	return w.function.Wrap(ctx, w.next)
}

// next is what Wrap calls.
func (w *wrapped) next(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	defer w.leave()
	w.output, w.err = w.function.Call(ctx, w.inputs)
	w.ended = true
	return w.err
}

// begin refuses what would execute the step twice, outside of its attempt, or without the
// attempt's deadline.
func (w *wrapped) begin(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx == nil || AttemptFrom(ctx) != w.attempt:
		return misused("called next with a context that was not made of the one that it got")
	case w.closed:
		return misused("called next after it had returned")
	case w.begun:
		return misused("called next twice: an attempt executes its step once, and Retry says how often it is tried")
	}
	w.begun = true
	return nil
}

func (w *wrapped) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned = true
	if w.left != nil {
		close(w.left)
	}
}

// close waits for a function that Wrap has called on another goroutine and left alone: an
// attempt lasts until its function has returned.
func (w *wrapped) close() {
	w.mu.Lock()
	w.closed = true
	if w.begun && !w.returned {
		w.left = make(chan struct{})
	}
	left := w.left
	w.mu.Unlock()
	if left != nil {
		<-left
	}
}

// result is what became of the attempt, by the error of Wrap. Wrap does not make a success
// of a failure.
func (w *wrapped) result(err error) (Output, error) {
	switch {
	case errors.Is(w.err, ErrInputsMissing):
		return Output{}, w.err
	case err != nil:
		return Output{}, err
	case !w.begun:
		return Output{}, misused("returned nil and had not called next: the step was not executed; call next, or return an error")
	case !w.ended:
		return Output{}, misused("returned nil after a panic of the step function: return an error")
	case w.err != nil:
		return Output{}, w.err
	}
	return w.output, nil
}

func misused(text string) error {
	return WithClass(classWrap, fmt.Errorf("Config.Wrap %s", text))
}
