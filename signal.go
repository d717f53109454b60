package troupe

import (
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
)

// Signal is a message with a name to a run that has not ended: [WaitSignal] waits for it. Declare it
// once, as a variable of a package, and use it on both sides. It is a value, safe for concurrent
// use.
//
//	var Approved = troupe.NewSignal[Approval]("approved")
type Signal[T any] struct{ name string }

// NewSignal names a signal whose values are of type T. The name stays with stored runs.
func NewSignal[T any](name string) Signal[T] { return Signal[T]{name: name} }

// Name returns the name of the signal.
func (s Signal[T]) Name() string { return s.name }

// With returns the signal with a value, for [Handle.TriggerWithSignal].
func (s Signal[T]) With(value T, options ...SendOption) Message {
	m := Message{name: s.name, value: value, as: reflect.TypeFor[T]()}
	for i, option := range options {
		if option == nil {
			m.problem = &SendError{Code: BadInput, Field: fmt.Sprintf("options[%d]", i), Remedy: "the option is nil: leave it out"}
			break
		}
		option(&m)
	}
	return m
}

// Message is a signal with its value, which [Signal.With] makes.
type Message struct {
	name    string
	value   any
	as      reflect.Type
	id      string
	problem *SendError
}

// SendOption tunes the sending of one signal.
type SendOption func(*Message)

// SignalID gives a signal an id: a run takes one signal of each id, however often it is sent, as
// long as the run is kept. Use what names the cause, such as the id of a webhook's delivery. Without
// the option each call has an id of its own, so that the engine may repeat it. SignalID("") means
// no id.
func SignalID(id string) SendOption {
	return func(m *Message) { m.id = id }
}

// Recipient is the run that a signal is sent to: a [*Run], or what [Handle.ByKey] returns. Only
// this package implements it.
type Recipient interface{ addressee() addressee }

// addressee is a run by its id or by its key.
type addressee struct {
	engine   *Engine
	tenant   string
	workflow string
	run      RunID  // zero: key names it
	key      string // of workflow and tenant
}

func (r *Run[O]) addressee() addressee {
	if r == nil {
		return addressee{}
	}
	return addressee{engine: r.engine, tenant: r.tenant, workflow: r.workflow, run: r.id}
}

func (a addressee) addressee() addressee { return a }

// ByKey names the run of a tenant ("": the default one) that was triggered with a key, as the
// recipient of signals. If that run failed and was requeued, it is the run that continues it. It
// reads nothing: whether there is a run shows when a signal is sent.
func (h *Handle[I, O]) ByKey(tenant, key string) Recipient {
	return addressee{engine: h.engine, tenant: h.engine.tenant(tenant), workflow: h.program.Graph.Name, key: key}
}

// of returns the run as the store knows it.
func (a *addressee) of(signal *persistence.Signal) {
	signal.Tenant, signal.Run = a.tenant, a.run
	if a.run.IsZero() {
		signal.Key = persistence.RunKey{Tenant: a.tenant, Workflow: a.workflow, Key: a.key}
	}
}

// signal encodes a message for a run of a tenant and workflow.
func (e *Engine) signal(m *Message, tenant, workflow string) (*persistence.Signal, error) {
	if m.problem != nil {
		return nil, m.problem
	}
	if m.name == "" {
		return nil, &SendError{Code: BadInput, Field: "name", Remedy: "the signal has no name: make it with NewSignal"}
	}
	payload, err := program.EncodeSignal(e.config.Codec, e.config.isJSON(), program.SignalPlace(tenant, workflow, m.name), m.value, m.as)
	if err != nil {
		return nil, &SendError{Code: BadInput, Field: "value", Remedy: "pass a value that the codec can encode", cause: err}
	}
	return &persistence.Signal{Name: m.name, ID: m.id, Payload: payload}, nil
}

// checkFirst refuses a signal of a trigger without a key, and gives it an id.
func (o *triggerOptions) checkFirst(pod *actors.Pod) error {
	if o.first == nil {
		return nil
	}
	if o.key == "" && (len(o.keys) == 0 || o.keys[0] == "") {
		return &TriggerError{Code: BadInput, Field: "key", Remedy: "give the run a key with Key: it tells whether the run is there"}
	}
	if o.first.id == "" {
		first := *o.first
		first.id, o.first = pod.NewSignalID(), &first
	}
	return nil
}
