package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Wake is one hint. A zero name means that there was more than a notice
// carries: every queue, every run that is waited for or executed here.
type Wake struct {
	Kind  WakeKind
	Queue string         // WakeReady; "": any queue
	Count int            // WakeReady: how many tasks became ready; 0: unknown
	Key   uint64         // WakeReady: the same on every pod that hears of it; 0: unknown
	At    time.Time      // WakeTimer: when the earliest new timer is due; zero: unknown
	Run   workflow.RunID // WakeEnded, WakeCanceling; zero: any run
}

// WakeKind says what there may be to do.
type WakeKind uint8

// The kinds of wakes.
const (
	_             WakeKind = iota
	WakeReady              // tasks were put into a queue
	WakeSubmitted          // rows were put into the intake table
	WakeTimer              // a timer was set
	WakeEnded              // a run ended
	WakeCanceling          // a run was asked to stop
)

// Mode is how wakes reach the pods.
type Mode uint8

// The modes.
const (
	_          Mode = iota
	ModeStream      // each pod reads the replication stream
	ModeRelay       // the leader reads it and relays
	ModeNone        // no stream: writers notify, pods sweep more often
	ModeSpared      // no pod needs a stream: writers notify if there is another pod
)

// Ping is what the leader says once a second.
type Ping struct {
	Epoch    int64
	Mode     Mode
	Pods     int   // living pods
	Relayed  int64 // wakes that this pod has notified in this term so far
	Resigned bool  // the last ping of a leader that steps down
}

// Notice is one notification: a ping, or wakes from the relay or from a writer.
type Notice struct {
	Ping  *Ping // nil: none
	Wakes []Wake
	From  int64 // pod that sent it
}

// Errors that a caller of the ports can act on.
var (
	// ErrNotElected: another pod leads.
	ErrNotElected = errors.New("another pod leads")
	// ErrStreamUnavailable: this database or role offers no replication
	// stream; the text says why and what would mend it. The engine works in
	// ModeNone then.
	ErrStreamUnavailable = errors.New("replication stream unavailable")
	// ErrUnheard: the server has no room for notifications; the text says what
	// would make some.
	ErrUnheard = errors.New("notifications cannot be sent")
)

// StreamError is an ErrStreamUnavailable with what the server said, in which there
// may be the role, the database and the host.
type StreamError struct {
	Remedy string
	Cause  error // nil: none
}

// Error implements error.
func (e *StreamError) Error() string {
	text := ErrStreamUnavailable.Error() + ": " + e.Remedy
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns both errors that it is.
func (e *StreamError) Unwrap() []error { return []error{ErrStreamUnavailable, e.Cause} }

// Shown returns the part of an error of the stream that is no secret: of a
// StreamError, the remedy and the SQLSTATE.
func Shown(err error) string {
	var refused *StreamError
	if !errors.As(err, &refused) {
		return err.Error()
	}
	text := ErrStreamUnavailable.Error() + ": " + refused.Remedy
	var server interface{ SQLState() string }
	if errors.As(refused.Cause, &server) {
		text += " (SQLSTATE " + server.SQLState() + ")"
	}
	return text
}

// Listener receives notifications.
type Listener interface {
	// Listen connects, calls connected once it hears, then passes every notice
	// to sink until ctx ends or the connection breaks. It returns why. sink is
	// called from one goroutine and must not block.
	Listen(ctx context.Context, connected func(), sink func(Notice)) error
}

// Stream reads wakes from logical replication.
type Stream interface {
	// Read creates a temporary slot, calls connected once the stream flows,
	// then passes wakes to sink, in commit order and coalesced per received
	// batch, until ctx ends or the stream breaks. It returns why; an error
	// that is ErrStreamUnavailable is not worth an early retry. Commits before
	// connected are not replayed. sink is called from one goroutine and must
	// not block.
	Read(ctx context.Context, connected func(), sink func([]Wake)) error
}

// Notifier sends notifications.
type Notifier interface {
	// Notify sends one notice to all listening pods, this one included, in a
	// transaction of its own. It returns ErrUnheard if none can be told for now.
	Notify(ctx context.Context, notice Notice) error
}

// Elector finds one leader.
type Elector interface {
	// Campaign tries once to lead. It returns ErrNotElected without waiting if
	// another pod does.
	Campaign(ctx context.Context) (Term, error)
}

// Term is one leadership. It ends when its session does, when it cannot ping
// for the session's timeout, or by Resign.
type Term interface {
	// Epoch fences every write of this term.
	Epoch() int64
	// Ping keeps the term alive and tells all pods. An error means that the
	// term is over or may be: stop leading.
	Ping(ctx context.Context, ping Ping) error
	// Resign ends the term and tells all pods. It is safe after a failed Ping.
	Resign(ctx context.Context) error
}
