package simtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/workflow"
)

// registration makes a workflow known to an engine and keeps its handle.
type registration func(engine *troupe.Engine, handles map[string]any) error

// Workflow is a workflow that every pod registers.
type Workflow[I, O any] struct {
	sim     *Sim
	name    string
	outputs map[string]workflow.OutputOf // of the steps, by their names
}

// Register makes every pod register a workflow, also those that start again.
// Register before anything else, or in the function of [Sim.Deploy].
func Register[I, O any](s *Sim, w troupe.Definition[I, O]) *Workflow[I, O] {
	list := &s.version
	switch {
	case s.declaring != nil:
		list = s.declaring
	case s.begun.Load():
		s.Fatalf("register %q: the pods have started: register first, or use Deploy", w.Name())
	}
	if err := w.Validate(); err != nil {
		s.Fatalf("register %q: %v", w.Name(), err)
	}
	*list = append(*list, func(engine *troupe.Engine, handles map[string]any) error {
		handle, err := troupe.Register(engine, w)
		handles[w.Name()] = handle
		return err
	})
	registered := &Workflow[I, O]{sim: s, name: w.Name(), outputs: map[string]workflow.OutputOf{}}
	d := w.Program(nil, nil).Definition
	for i := range d.Steps {
		registered.outputs[d.Steps[i].Name] = d.Steps[i].OutputOf(d.Name)
	}
	return registered
}

// Start triggers a run on any pod that is up, and again on others until one
// has acknowledged it. Unless options name a troupe.Key it gets one of its own,
// so that it exists once. A refusal fails the simulation.
func (w *Workflow[I, O]) Start(in I, options ...troupe.TriggerOption) *Started[O] {
	run, err := w.TryStart(in, options...)
	if err != nil {
		w.sim.Fatalf("start %q: %v", w.name, err)
	}
	return run
}

// TryStart is Start that returns a refusal.
func (w *Workflow[I, O]) TryStart(in I, options ...troupe.TriggerOption) (*Started[O], error) {
	return w.start(options, func(ctx context.Context, handle *troupe.Handle[I, O], options []troupe.TriggerOption) (*troupe.Run[O], error) {
		return handle.RunNoWait(ctx, in, options...)
	})
}

// start triggers a run by a call that may be made again and again.
func (w *Workflow[I, O]) start(
	options []troupe.TriggerOption, trigger func(context.Context, *troupe.Handle[I, O], []troupe.TriggerOption) (*troupe.Run[O], error),
) (*Started[O], error) {
	s := w.sim
	s.begin()
	s.starts++
	name := fmt.Sprintf("%s-%d", w.name, s.starts)
	options = append([]troupe.TriggerOption{troupe.Key(name)}, options...)
	var run *troupe.Run[O]
	err := w.insist(func(ctx context.Context, handle *troupe.Handle[I, O]) (err error) {
		run, err = trigger(ctx, handle, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.visit("started", func(done func()) {
		if s.names[run.ID()] == "" {
			s.names[run.ID()] = name
		}
		done()
	})
	return w.started(run), nil
}

// started returns what a test does with a run.
func (w *Workflow[I, O]) started(run *troupe.Run[O]) *Started[O] {
	return &Started[O]{
		sim: w.sim, run: run, requeue: func() (*Started[O], error) { return w.requeue(run) },
		again: func(cancel func(context.Context, *troupe.Run[O]) error) error {
			return w.insist(func(ctx context.Context, handle *troupe.Handle[I, O]) error {
				status, err := run.Status(ctx)
				if err != nil {
					return err
				}
				return cancel(ctx, handle.Get(status.Tenant, run.ID()))
			})
		},
	}
}

const (
	callTimeout = 10 * time.Second // of one call to one pod
	callPause   = 200 * time.Millisecond
	callsMost   = 10_000
)

// insist makes a call to one pod after another until one answers.
func (w *Workflow[I, O]) insist(call func(context.Context, *troupe.Handle[I, O]) error) error {
	s := w.sim
	s.calls.Add(1)
	defer s.calls.Add(-1)
	err := errNoPod
	for range callsMost {
		if handle := w.handle(); handle != nil {
			ctx, cancel := context.WithTimeout(s.context, callTimeout)
			err = call(ctx, handle)
			cancel()
			if err == nil || !worthAnother(err) {
				return err
			}
		}
		s.Advance(callPause)
	}
	return fmt.Errorf("no pod answers, the last one said: %w", err)
}

var errNoPod = errors.New("no pod that is up has registered this workflow with these types")

// worthAnother reports whether another pod, or the same later, may say yes.
func worthAnother(err error) bool {
	var trigger *troupe.TriggerError
	var signal *troupe.SendError
	var code troupe.RefusalCode
	switch {
	case errors.As(err, &trigger):
		code = trigger.Code
	case errors.As(err, &signal):
		code = signal.Code
	default:
		return !errors.Is(err, troupe.ErrRunNotFound)
	}
	return code == troupe.Overloaded || code == troupe.Stopping || code == troupe.Unavailable
}

// handle returns that of a pod that is up; nil: there is none.
func (w *Workflow[I, O]) handle() *troupe.Handle[I, O] {
	var found *troupe.Handle[I, O]
	w.sim.visit("choose", func(done func()) {
		_, found = w.choose()
		done()
	})
	return found
}

// choose returns the engine of a pod that is up, and its handle; nil: there is none.
func (w *Workflow[I, O]) choose() (*troupe.Engine, *troupe.Handle[I, O]) {
	s := w.sim
	first := s.random.IntN(len(s.slots))
	for i := range s.slots {
		c := s.slots[(first+i)%len(s.slots)]
		if handle, ok := c.handles[w.name].(*troupe.Handle[I, O]); ok && c.pod != nil && !c.stopping {
			return c.engine, handle
		}
	}
	return nil, nil
}

// Started is a run that was started.
type Started[O any] struct {
	sim     *Sim
	run     *troupe.Run[O]
	again   func(func(context.Context, *troupe.Run[O]) error) error
	requeue func() (*Started[O], error)
}

// ID returns the id of the run.
func (r *Started[O]) ID() troupe.RunID { return r.run.ID() }

// Await waits until the run has ended and returns its output, or how it ended
// otherwise, as troupe.Run.Await does.
func (r *Started[O]) Await() (O, error) {
	s, id := r.sim, r.run.ID()
	s.visit("await", func(done func()) { s.awaitEnd(id, done) })
	return r.run.Await(s.context)
}

// Cancel asks the run to stop, and returns once that is durable.
func (r *Started[O]) Cancel(reason string) {
	err := r.again(func(ctx context.Context, run *troupe.Run[O]) error { return run.Cancel(ctx, reason) })
	if err != nil {
		r.sim.Fatalf("cancel: %v", err)
	}
}

// Status returns the run and its steps as they stand.
func (r *Started[O]) Status() troupe.RunStatus {
	status, err := r.run.Status(r.sim.context)
	if err != nil {
		r.sim.Fatalf("status: %v", err)
	}
	return status
}

// States returns the state of every step, by name.
func (r *Started[O]) States() map[string]troupe.State {
	states := map[string]troupe.State{}
	for _, step := range r.Status().Steps {
		states[step.Name] = step.State
	}
	return states
}

// Elements returns a page of the elements of a map of the run as they stand.
func (r *Started[O]) Elements(step string, filter troupe.ElementFilter) troupe.ElementPage {
	page, err := r.run.Elements(r.sim.context, step, filter)
	if err != nil {
		r.sim.Fatalf("elements: %v", err)
	}
	return page
}

// Events returns the history of the run so far.
func (r *Started[O]) Events() []troupe.Event {
	var events []troupe.Event
	for event, err := range r.run.Events(r.sim.context) {
		if err != nil {
			r.sim.Fatalf("events: %v", err)
		}
		events = append(events, event)
	}
	return events
}

// nameOf is what the report calls a run.
func (s *Sim) nameOf(id workflow.RunID) string {
	if name := s.names[id]; name != "" {
		return name
	}
	return id.String()
}
