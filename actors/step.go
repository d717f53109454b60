package actors

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// StepFunction is one registered step without its Go types: what a run actor
// needs to execute a task of it. Package program builds these. A StepFunction is
// read only and safe for concurrent use.
type StepFunction struct {
	Workflow    string
	Step        string
	Fingerprint workflow.Hash
	Queue       string // "": the queue of the run
	First       bool   // runs begin with it: it waits for no other step
	Options     workflow.Options
	RetryIf     func(error) bool // nil: every error but a terminal one

	// Call decodes the inputs, calls the embedder's function, encodes its
	// result and evaluates the conditions that hang on it. It runs on a
	// goroutine of the Executor and may panic; the Executor reports that as a
	// failed attempt. A returned error is the attempt's.
	Call func(ctx context.Context, in Inputs) (Output, error)

	// Wrap is called in place of Call, with its context, and calls it: next does. Its error
	// is the attempt's. Nil: nothing is around Call. Replay is not wrapped.
	Wrap func(ctx context.Context, next func(context.Context) error) error

	// Replay returns the output of Call for an encoded result, without calling the
	// embedder's function: its conditions are evaluated again. It may panic as Call
	// may. Nil: no condition depends on the result. Of a step that waits for a signal the
	// payload is the signal's, and the output is the same bytes; such a step has no Call.
	Replay func(ctx context.Context, payload []byte) (Output, error)

	// Map is what a step does that executes Call for each element of a list: before the first
	// element and after the last one. Nil: the step is no map.
	Map *MapFunction

	// Result is the result type of the embedder's function, and Finish returns the
	// output of Call for such a value: for simulations, which replace the function. A
	// failure handler has none.
	Result reflect.Type
	Finish func(ctx context.Context, value any) (Output, error)
	Codec  Codec

	// Labels of its measures, made once by the pod.
	succeeded []string
	duration  []string
}

// MapFunction is what a step does that executes its Call for each element of a list. Both
// functions run on a goroutine of the Executor, and may panic as Call may.
type MapFunction struct {
	// Split decodes the list and encodes each item for itself, as Output.Map. Of an empty list
	// it returns the output.
	Split func(ctx context.Context, in Inputs) (Output, error)
	// Gather returns the output, once all elements have ended.
	Gather func(ctx context.Context, elements *Elements) (Output, error)
}

// isElement reports whether a task executes the function of a map for one element.
func (f *StepFunction) isElement(task *messages.StartTask) bool {
	return f.Map != nil && task.GetDeclared() != ""
}

// ErrInputsMissing is returned by a StepFunction that was given fewer inputs than its step
// has: the database has lost the definition for now. The task is handed back.
var ErrInputsMissing = errors.New("the database knows fewer parents of this step than it has: it lost the definition, which is registered again with the next trigger or start")

// Codec turns the values of step functions into bytes and back.
type Codec interface {
	Marshal(value any) ([]byte, error)
	Unmarshal(data []byte, target any) error
}

// PayloadPlace says which bytes a [PayloadCodec] makes or reads. It is the same when they
// are made and whenever they are read, also in a run that takes over an output.
type PayloadPlace struct {
	Tenant   string
	Workflow string
	Step     string // whose item, output or progress it is, as "files[17]" of an element; whose input, as "charge#3" of what a machine has started; of a signal its name; "": the run's input, or the state of its machine
	Kind     PayloadKind
}

// PayloadKind says what a payload is.
type PayloadKind string

// The kinds of payloads.
const (
	PayloadInput    PayloadKind = "input"
	PayloadOutput   PayloadKind = "output"
	PayloadProgress PayloadKind = "progress"
	PayloadSignal   PayloadKind = "signal"
	PayloadItem     PayloadKind = "item"
	PayloadState    PayloadKind = "state"
)

// PayloadCodec is a [Codec] that is told what it encodes and decodes.
type PayloadCodec interface {
	Codec
	MarshalFor(payload PayloadPlace, value any) ([]byte, error)
	UnmarshalFor(payload PayloadPlace, data []byte, target any) error
}

// CodecFor returns the codec of one payload: codec itself, unless it is a
// [PayloadCodec].
func CodecFor(codec Codec, payload PayloadPlace) Codec {
	if of, ok := codec.(PayloadCodec); ok {
		return payloadCodec{of, payload}
	}
	return codec
}

type payloadCodec struct {
	of      PayloadCodec
	payload PayloadPlace
}

// Marshal implements Codec.
func (c payloadCodec) Marshal(value any) ([]byte, error) { return c.of.MarshalFor(c.payload, value) }

// Unmarshal implements Codec.
func (c payloadCodec) Unmarshal(data []byte, target any) error {
	return c.of.UnmarshalFor(c.payload, data, target)
}

// Inputs are the inputs of one attempt. The byte slices belong to the attempt.
type Inputs struct {
	Input      []byte                    // of the run
	LargeInput bool                      // Input was read for this attempt alone, as are outputs of parents that are Large
	Parents    []persistence.Outcome     // in the order of the function's parameters
	Failed     []persistence.Outcome     // OnFailure only: the failed steps
	Item       []byte                    // of an element of a map, or the input of what a machine has started
	Machine    *persistence.MachineGrant // of a machine
	BegunAt    time.Time                 // when the run began, for its machine
	Once       bool                      // payloads read for this attempt alone are not needed again: Call may change and release them
}

// Output is the report of a successful attempt.
type Output struct {
	Payload []byte                   // encoded result
	Edges   []persistence.EdgeResult // results of conditions and sleep instants for children

	// Child is the run that the step begins and waits for, in place of a payload: its
	// Definition, Workflow, Input and Edges. The pod gives it an id and its keys.
	Child *persistence.Child

	// Map is the list whose elements begin, in place of a payload.
	Map *persistence.Map

	// Activation is what an activation of a machine has decided. The machine has completed with the
	// payload, unless that is nil.
	Activation *persistence.Activation
}

// TaskInfo tells a step function which task it executes.
type TaskInfo struct {
	Run            workflow.RunID
	Workflow       string
	Tenant         string
	Step           string
	Item           int    // which element of a map it is, from 0; -1: it is none
	Attempt        int    // counted from 1
	MaxAttempts    int    // 1: never retried
	AttemptID      string // unique to this attempt
	IdempotencyKey string // the same for every attempt of this task, also after a requeue
	Labels         map[string]string
	TraceContext   string    // W3C, of the trigger; "": none
	LastProgress   []byte    // encoded; last progress of the previous attempt, or nil
	QueuedAt       time.Time // when the task became ready; by the database's clock, as is the next
	StartedAt      time.Time // when the attempt was granted
}

// Attempt is the handle of a running attempt that travels in the context of
// the step function. Its methods are safe for concurrent use.
type Attempt interface {
	// Info describes the task.
	Info() TaskInfo
	// Heartbeat says that the attempt is alive and stores progress (encoded,
	// may be nil) with the next pulse. It returns the cause once the attempt's
	// context has ended, else nil. It never blocks.
	Heartbeat(progress []byte) error
	// Tx returns the transaction of an InTx step, else nil.
	Tx() any
	// Waits says whether the function waits for another run, which may need the
	// memory that its inputs take.
	Waits(yes bool)
}

type attemptKey struct{}

// WithAttempt returns a context that carries a.
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptFrom returns the attempt that WithAttempt stored, or nil outside a
// step function.
func AttemptFrom(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}
