package actors

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// This file is the only one of the package that names protoactor-go. The list
// is short on purpose: other parts were found to race, to stop silently or to read the
// real clock.
type (
	// System is protoactor's actor system.
	System = actor.ActorSystem
	// PID is the address of an actor.
	PID = actor.PID
	// MailboxProducer makes the mailbox of one actor.
	MailboxProducer = actor.MailboxProducer

	mailbox            = actor.Mailbox
	receiver           = actor.Actor
	actorContext       = actor.Context
	props              = actor.Props
	supervisor         = actor.Supervisor
	supervisorStrategy = actor.SupervisorStrategy
	restartStatistics  = actor.RestartStatistics

	started    = actor.Started
	stopping   = actor.Stopping
	stopped    = actor.Stopped
	restarting = actor.Restarting
	terminated = actor.Terminated
)

var _ actor.SupervisorStrategy = (*supervision)(nil)

// newSystem returns an actor system that logs where the embedder wants. Its
// event stream is replaced: the subscriber of protoactor's own logs messages to
// actors that have ended, which is ordinary here, and starts goroutines without an
// owner for that.
func newSystem(log *slog.Logger) *System {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*System) *slog.Logger { return log }))
	system.EventStream = eventstream.NewEventStream()
	return system
}

func newProps(produce func() receiver, mailboxes MailboxProducer) *props {
	if mailboxes == nil {
		mailboxes = newMailbox
	}
	return actor.PropsFromProducer(produce, actor.WithMailbox(mailboxes), actor.WithDispatcher(roomy{}))
}

func newMailbox() mailbox { return &earlyMailbox{mailbox: actor.Unbounded()()} }

// earlyMailbox keeps messages that are sent to an actor before it is attached to its
// mailbox. Siblings know each other's addresses from the start, and an address is valid a
// moment before its actor is: protoactor's own mailbox then panics in the sender, and
// never runs again.
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
