package sim

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// Store is a store and the transactions of an embedder on it.
type Store interface {
	persistence.Store

	// InTx calls fn with a transaction, which it commits unless fn returns an
	// error.
	InTx(ctx context.Context, fn func(tx any) error) error
}

// modelStore is the model as a Store.
type modelStore struct{ *memory.Store }

// InTx implements Store.
func (s modelStore) InTx(_ context.Context, fn func(tx any) error) error {
	tx := s.Begin()
	if err := fn(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// Send sends a message to an actor of a pod, from an actor outside.
func (w *World) Send(to *actors.PID, message any, from *actors.PID) {
	w.system.Root.RequestWithCustomSender(to, message, from)
}

// Spawn starts an actor that no fault hits.
func (w *World) Spawn(name string, hear func(message any)) (*actors.PID, error) {
	outside := &Pod{Name: "outside", world: w, coroutines: map[*coroutine]struct{}{}}
	return w.system.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) { hear(ctx.Message()) },
		actor.WithMailbox(func() actor.Mailbox { return &box{world: w, pod: outside} })), name)
}

// Committed says that a transaction which the world did not carry was
// committed, and what it wakes.
func (w *World) Committed(call string, wake persistence.Wake) {
	w.note("store", "outside", call)
	if w.options.Committed != nil {
		w.options.Committed(call)
	}
	w.bus.committed(&wake)
}

// noPanic makes a panic of the database a violation: its caller would take it for
// an error.
func (w *World) noPanic(call string) {
	if r := recover(); r != nil {
		w.Fail("panic", "%s: %v", call, r)
		panic(r)
	}
}

// answered reports the database's answer to Options.Answered.
func (w *World) answered(p *Pod, call string, answer any, err error) {
	if w.options.Answered != nil {
		w.options.Answered(p, call, answer, err)
	}
}
