package actors

import (
	"log/slog"

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

	mailboxPort        = actor.Mailbox
	messageInvoker     = actor.MessageInvoker
	dispatcher         = actor.Dispatcher
	suspendMailbox     = actor.SuspendMailbox
	resumeMailbox      = actor.ResumeMailbox
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

// newProps makes an actor that handles its messages where the dispatcher says.
func newProps(produce func() receiver, mailboxes MailboxProducer, where dispatcher) *props {
	return actor.PropsFromProducer(produce, actor.WithMailbox(mailboxes), actor.WithDispatcher(where))
}
