package actors

import (
	"context"

	"github.com/troupe-dev/troupe/persistence"
)

// NewSignalID makes the id of a signal that no other signal has.
func (p *Pod) NewSignalID() string { return p.rt.newRunID().String() }

// CheckSignal returns why a signal cannot be stored, or nil.
func (p *Pod) CheckSignal(signal *persistence.Signal) *Refusal {
	return CheckSignal(signal, p.rt.config.PayloadLimit)
}

// Signal stores a signal and returns once that is durable. While too many triggers and
// signals wait it waits for room. A refusal means that nothing was stored; an error that this
// is unknown, or that ctx ended first: sent again with the same id, a signal is stored once.
func (p *Pod) Signal(ctx context.Context, signal persistence.Signal) (persistence.SignalAnswer, *Refusal, error) {
	var none persistence.SignalAnswer
	if refused := p.CheckSignal(&signal); refused != nil {
		return none, refused, nil
	}
	release, err := p.rt.status.admit(ctx, 1)
	if err != nil {
		return none, nil, err
	}
	defer release()
	call := &signalCall{ask: &signalQuestion{signal: signal}}
	a, err := converse(ctx, p, p.rt.addresses.intake, call, func(answer func(signalAnswer), taken, gone func() bool) {
		call.ask.answer, call.ask.taken, call.ask.gone = answer, taken, gone
	})
	err = triedAgain(err, &call.ask.last)
	if err == nil && a.err != nil {
		return none, nil, a.err
	}
	return a.answer, a.refused, err
}
