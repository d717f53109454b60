package actors

import (
	scheduler "runtime"
	"sync"
)

// mailbox holds the messages of one actor and has them handled one at a time, messages of
// the system first. It takes messages before its actor is attached: siblings know each
// other's addresses from the start, and an address is valid a moment before its actor is.
// It is safe for concurrent use.
//
// It is our own because each task has an actor: the mailbox of protoactor takes four
// allocations and makes a sender panic whose message comes too early.
type mailbox struct {
	invoker    messageInvoker
	dispatcher dispatcher
	work       func() // handle

	mu        sync.Mutex
	attached  bool
	handling  bool // a goroutine handles messages
	suspended bool // the actor has failed: only messages of the system are handled
	system    messageQueue
	user      messageQueue
}

var _ mailboxPort = (*mailbox)(nil)

func newMailbox() mailboxPort { return &mailbox{} }

// messageQueue is a first-in first-out list. The first few need no allocation.
type messageQueue struct {
	items []any
	head  int
	few   [2]any
}

func (q *messageQueue) push(message any) {
	switch {
	case q.items == nil:
		q.items = q.few[:0]
	case len(q.items) == cap(q.items) && q.head > len(q.items)/2: // rather than grow
		left := copy(q.items, q.items[q.head:])
		clear(q.items[left:])
		q.items, q.head = q.items[:left], 0
	}
	q.items = append(q.items, message)
}

func (q *messageQueue) empty() bool { return q.head == len(q.items) }

func (q *messageQueue) pop() any {
	message := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.empty() {
		q.items, q.head = q.items[:0], 0
	}
	return message
}

// RegisterHandlers implements protoactor's Mailbox.
func (m *mailbox) RegisterHandlers(invoker messageInvoker, dispatcher dispatcher) {
	m.invoker, m.dispatcher, m.work = invoker, dispatcher, m.handle
}

// Start implements protoactor's Mailbox. It comes when the actor is attached
// and its first message, started, is posted.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.attached = true
	m.unlockAndHandle()
}

// PostUserMessage implements protoactor's Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	m.user.push(message)
	m.unlockAndHandle()
}

// PostSystemMessage implements protoactor's Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system.push(message)
	m.unlockAndHandle()
}

// UserMessageCount implements protoactor's Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user.items) - m.user.head
}

// unlockAndHandle has the messages handled, unless a goroutine is at it.
func (m *mailbox) unlockAndHandle() {
	begin := m.attached && !m.handling && m.ready()
	if begin {
		m.handling = true
	}
	m.mu.Unlock()
	if begin {
		m.dispatcher.Schedule(m.work)
	}
}

func (m *mailbox) ready() bool { return !m.system.empty() || !m.suspended && !m.user.empty() }

// handle handles messages until none is left.
func (m *mailbox) handle() {
	for m.handleSome() {
	}
}

// handleSome handles messages until none is left, or the actor fails: then it reports true.
func (m *mailbox) handleSome() (failed bool) {
	var message any
	defer func() {
		if reason := recover(); reason != nil {
			m.invoker.EscalateFailure(reason, message)
			failed = true
		}
	}()
	for n := 1; ; n++ {
		var ofSystem, ok bool
		if message, ofSystem, ok = m.next(); !ok {
			return false
		}
		if ofSystem {
			m.invoker.InvokeSystemMessage(message)
		} else {
			m.invoker.InvokeUserMessage(message)
		}
		if n%m.dispatcher.Throughput() == 0 {
			scheduler.Gosched()
		}
	}
}

// next takes the next message to handle; none: the goroutine is done.
func (m *mailbox) next() (message any, ofSystem, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.system.empty() {
		message := m.system.pop()
		switch message.(type) {
		case *suspendMailbox:
			m.suspended = true
		case *resumeMailbox:
			m.suspended = false
		default:
			return message, true, true
		}
	}
	if m.suspended || m.user.empty() {
		m.handling = false
		return nil, false, false
	}
	return m.user.pop(), false, true
}
