package troupe

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// Send sends a signal to a run, also to one that has not begun. It returns once the signal is
// durable: then the run's steps will take it in the order of sending, or it stays until one waits
// for it. A refusal is a [*SendError], and then nothing was stored. While the database does not
// answer the call is repeated until ctx ends, or 30 s are over: whether the signal was stored is
// unknown then ([ErrUnavailable]), and with the same [SignalID] it is safe to send it again.
func (s Signal[T]) Send(ctx context.Context, to Recipient, value T, options ...SendOption) error {
	message := s.With(value, options...)
	_, err := called(ctx, func(ctx context.Context) (persistence.SignalAnswer, error) {
		pod, signal, err := message.to(to)
		if err != nil {
			return persistence.SignalAnswer{}, err
		}
		answer, refused, err := pod.Signal(ctx, *signal)
		switch {
		case err != nil:
			return answer, fmt.Errorf("send signal %q: %w", s.name, podEnded(err))
		case refused != nil:
			return answer, sendError(refused)
		}
		return answer, nil
	})
	return err
}

// SendTx stores a signal in the caller's transaction: the run gets it if and only if that
// commits. The run may have been triggered in the same transaction, by TriggerTx. It takes no
// lock that others wait for, except those who send a signal of the same [SignalID] to the same run.
// If the run ends before the commit, the signal is dropped, and counted
// (troupe_signals_dropped_total). What [Handle.TriggerTx] says of transactions holds here.
func (s Signal[T]) SendTx(ctx context.Context, tx pgx.Tx, to Recipient, value T, options ...SendOption) error {
	message := s.With(value, options...)
	_, err := called(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, message.sendTx(ctx, tx, to) })
	return err
}

func (m *Message) sendTx(ctx context.Context, tx pgx.Tx, to Recipient) error {
	pod, signal, err := m.to(to)
	if err != nil {
		return err
	}
	if refused := pod.CheckSignal(signal); refused != nil {
		return sendError(refused)
	}
	engine := to.addressee().engine
	answer, err := engine.store.SendSignalInTx(ctx, tx, *signal)
	if err == nil {
		if refused := actors.SignalRefusal(signal, answer); refused != nil {
			return sendError(refused)
		}
		if !pod.Streamed() {
			err = engine.backend.announce(ctx, tx)
		}
	}
	if err != nil {
		return fmt.Errorf("send signal %q in transaction: %w", m.name, err)
	}
	pod.Submitted()
	return nil
}

// to encodes a message for a recipient, and gives it an id unless it has one.
func (m *Message) to(recipient Recipient) (*actors.Pod, *persistence.Signal, error) {
	var at addressee
	if recipient != nil {
		at = recipient.addressee()
	}
	if at.engine == nil {
		return nil, nil, &SendError{Code: BadInput, Field: "to", Remedy: "the recipient is empty: pass a *Run, or what Handle.ByKey returns"}
	}
	pod, err := at.engine.livePod()
	if err != nil {
		return nil, nil, err
	}
	signal, err := at.engine.signal(m, at.tenant, at.workflow)
	if err != nil {
		return nil, nil, err
	}
	at.of(signal)
	if signal.ID == "" {
		signal.ID = pod.NewSignalID()
	}
	return pod, signal, nil
}

// TriggerWithSignal triggers a run and sends it a signal, in one transaction; if a run with the
// same [Key] and an equal input exists, the signal goes to that run. The key is required. Use it
// where a signal may come before its run is there; with a [SignalID] the call may be repeated. If the run is stored, or exists, and the signal
// is refused, it returns the run together with the [*SendError].
func (h *Handle[I, O]) TriggerWithSignal(ctx context.Context, in I, first Message, options ...TriggerOption) (*Run[O], error) {
	options = append(options[:len(options):len(options)], func(o *triggerOptions) { o.first = &first })
	runs, err := called(ctx, func(ctx context.Context) ([]*Run[O], error) { return h.trigger(ctx, []I{in}, options) })
	if len(runs) == 0 {
		return nil, err
	}
	return runs[0], err
}
