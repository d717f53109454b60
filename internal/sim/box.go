package sim

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// box is the mailbox of one actor. Posting makes it ready; the world delivers
// one message at a time. System messages come first, as in protoactor's own.
// Only the goroutine that steps the world touches it.
type box struct {
	world     *World
	pod       *Pod
	invoker   actor.MessageInvoker
	id        string // of the actor
	name      uint64 // its hash
	rank      uint64 // priority scheduling: lower is later
	system    queue
	user      queue
	suspended bool
	queued    bool // among the ready
}

var _ actor.Mailbox = (*box)(nil)

// queue is a first-in first-out list.
type queue struct {
	items []any
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(x any) { q.items = append(q.items, x) }

func (q *queue) pop() any {
	x := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return x
}

// PostUserMessage implements protoactor's Mailbox.
func (b *box) PostUserMessage(message any) {
	if !b.pod.dead {
		b.user.push(message)
		b.wake()
	}
}

// PostSystemMessage implements protoactor's Mailbox.
func (b *box) PostSystemMessage(message any) {
	if !b.pod.dead {
		b.system.push(message)
		b.wake()
	}
}

// RegisterHandlers implements protoactor's Mailbox. The invoker is the actor's
// context, which knows its address by now.
func (b *box) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	b.invoker = invoker
	b.id = "?"
	if own, ok := invoker.(actor.Context); ok {
		b.id = own.Self().GetId()
	}
	b.name = hashText(hashStart, b.id)
	b.rank = mix(b.world.seed, b.name)
	b.pod.boxes = append(b.pod.boxes, b)
	b.wake()
}

// Start implements protoactor's Mailbox.
func (b *box) Start() { b.wake() }

// UserMessageCount implements protoactor's Mailbox.
func (b *box) UserMessageCount() int { return b.user.len() }

func (b *box) runnable() bool {
	return b.invoker != nil && b.pod.runs() && (b.system.len() > 0 || !b.suspended && b.user.len() > 0)
}

func (b *box) wake() {
	if !b.queued && b.runnable() {
		b.queued = true
		b.world.ready = append(b.world.ready, b)
	}
}

// mayPanic is where an actor may fail. The pod's own recovers from its panics
// by itself, and ends the pod; nothing fails around it.
func (b *box) mayPanic(at *Spot) {
	if at != nil && b.id != b.pod.root {
		at.mayPanic()
	}
}

// deliver hands one message to the actor. What an actor panics with goes to
// its supervisor, as in protoactor's own mailbox; a violation does not.
func (b *box) deliver() {
	var message any
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(*Violation); ok {
				b.world.fail(v)
				return
			}
			b.world.note("panic", b.id, fmt.Sprint(r))
			if fmt.Sprint(r) != errPlanned.Error() {
				b.world.Fail("panic", "%s: %v", b.id, r)
			}
			b.pod.disturb(b.world.Now())
			b.invoker.EscalateFailure(r, message)
		}
		b.wake()
	}()
	if b.system.len() > 0 {
		message = b.system.pop()
		b.world.noteDelivery(b, message)
		switch message.(type) {
		case *actor.SuspendMailbox:
			b.suspended = true
		case *actor.ResumeMailbox:
			b.suspended = false
		case *actor.Started:
			b.mayPanic(b.pod.spots.panicStarted)
			b.invoker.InvokeSystemMessage(message)
		default:
			b.invoker.InvokeSystemMessage(message)
		}
		return
	}
	message = b.user.pop()
	b.world.noteDelivery(b, message)
	b.mayPanic(b.pod.spots.panicBefore)
	b.invoker.InvokeUserMessage(message)
	b.mayPanic(b.pod.spots.panicAfter)
}
