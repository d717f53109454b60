package actors

import (
	"sync"
	"sync/atomic"
)

// earlyMailbox keeps what is sent to an actor before it is attached to its
// mailbox. Siblings know each other's addresses from the start, and an address
// is valid a moment before its actor is: protoactor's own mailbox then panics
// in the sender, and never runs again.
type earlyMailbox struct {
	mailbox
	attached atomic.Bool

	mu    sync.Mutex
	early []any // until attached
}

// PostUserMessage implements protoactor's Mailbox.
func (m *earlyMailbox) PostUserMessage(message any) {
	if !m.attached.Load() && m.keep(message) {
		return
	}
	m.mailbox.PostUserMessage(message)
}

func (m *earlyMailbox) keep(message any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached.Load() {
		return false
	}
	m.early = append(m.early, message)
	return true
}

// Start implements protoactor's Mailbox. It comes when the actor is attached
// and its first message, started, is posted.
func (m *earlyMailbox) Start() {
	m.mailbox.Start()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.early {
		m.mailbox.PostUserMessage(message)
	}
	m.early = nil
	m.attached.Store(true)
}
