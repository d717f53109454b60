package simtest

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/sim"
)

// lateMax bounds how late SignalLate sends a signal.
const lateMax = 10 * time.Minute

// Recipient is the run that a signal is sent to: a [*Started], or what [Workflow.ByKey]
// returns.
type Recipient interface {
	of() *Sim
	reach(send func(context.Context, troupe.Recipient) error) error
}

func (r *Started[O]) of() *Sim { return r.sim }

func (r *Started[O]) reach(send func(context.Context, troupe.Recipient) error) error {
	return r.again(func(ctx context.Context, run *troupe.Run[O]) error { return send(ctx, run) })
}

type byKey struct {
	sim   *Sim
	again func(func(context.Context, troupe.Recipient) error) error
}

func (k byKey) of() *Sim { return k.sim }

func (k byKey) reach(send func(context.Context, troupe.Recipient) error) error { return k.again(send) }

// ByKey is troupe.Handle.ByKey, on any pod that is up.
func (w *Workflow[I, O]) ByKey(tenant, key string) Recipient {
	return byKey{w.sim, func(send func(context.Context, troupe.Recipient) error) error {
		return w.insist(func(ctx context.Context, handle *troupe.Handle[I, O]) error {
			return send(ctx, handle.ByKey(tenant, key))
		})
	}}
}

// Send sends a signal on any pod that is up, and again on others until one has stored it.
// Unless options give it a troupe.SignalID it gets one of its own, so that it is sent once. A
// refusal fails the simulation.
func Send[T any](to Recipient, signal troupe.Signal[T], value T, options ...troupe.SendOption) {
	if err := TrySend(to, signal, value, options...); err != nil {
		to.of().Fatalf("send %q: %v", signal.Name(), err)
	}
}

// TrySend is Send that returns a refusal.
func TrySend[T any](to Recipient, signal troupe.Signal[T], value T, options ...troupe.SendOption) error {
	s := to.of()
	s.begin()
	options = append([]troupe.SendOption{s.signalID()}, options...)
	var wait time.Duration
	s.visit("send", func(done func()) {
		if draw, late := s.world.Happens(sim.Class(SignalLate), signal.Name()); late {
			wait = draw.Between(time.Millisecond, lateMax)
		}
		done()
	})
	if wait > 0 {
		s.Advance(wait)
	}
	send := func(ctx context.Context, to troupe.Recipient) error { return signal.Send(ctx, to, value, options...) }
	if err := to.reach(send); err != nil {
		return err
	}
	twice := false
	s.visit("sent", func(done func()) {
		twice = s.world.Visit(sim.Class(SignalTwice), signal.Name())
		done()
	})
	if twice {
		return to.reach(send)
	}
	return nil
}

// signalID makes the id of a signal.
func (s *Sim) signalID() troupe.SendOption {
	s.sent++
	return troupe.SignalID(fmt.Sprintf("signal-%d", s.sent))
}

// StartWithSignal is [Workflow.Start] with troupe.Handle.TriggerWithSignal.
func StartWithSignal[I, O, T any](w *Workflow[I, O], in I, signal troupe.Signal[T], value T, options ...troupe.TriggerOption) *Started[O] {
	first := signal.With(value, w.sim.signalID())
	run, err := w.start(options, func(ctx context.Context, handle *troupe.Handle[I, O], options []troupe.TriggerOption) (*troupe.Run[O], error) {
		return handle.TriggerWithSignal(ctx, in, first, options...)
	})
	if err != nil {
		w.sim.Fatalf("start %q with the signal %q: %v", w.name, signal.Name(), err)
	}
	return run
}
