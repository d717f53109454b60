package troupe

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// SignalTo names the run of a signal: by its id, or by workflow and key.
type SignalTo struct {
	Run      RunID  // zero: Workflow and Key name it
	Tenant   string // of the run, "": any; of a key, "": "default"
	Workflow string
	Key      string
}

// Signaled is what became of a signal.
type Signaled struct {
	Run      RunID
	Repeated bool // the run has a signal of the same id: nothing was stored
}

// Signal sends a signal to a run, whose payload is encoded as the program that registers the
// workflow does it. It returns when the signal is durable; a refusal is a [*SendError], and then
// nothing was stored. Without [SignalID] each call has an id of its own.
func (o *Operator) Signal(ctx context.Context, to SignalTo, name string, payload []byte, options ...SendOption) (Signaled, error) {
	message := Message{name: name}
	for i, option := range options {
		if option == nil {
			return Signaled{}, &SendError{Code: BadInput, Field: fmt.Sprintf("options[%d]", i), Remedy: "the option is nil: leave it out"}
		}
		option(&message)
	}
	signal := persistence.Signal{Run: to.Run, Tenant: to.Tenant, Name: name, ID: message.id, Payload: payload}
	if to.Run.IsZero() {
		signal.Key = persistence.RunKey{Tenant: to.Tenant, Workflow: to.Workflow, Key: to.Key}
		if to.Tenant == "" {
			signal.Key.Tenant = Config{}.withDefaults().DefaultTenant
		}
	}
	if signal.ID == "" {
		signal.ID = toolRunID().String()
	}
	if refused := actors.CheckSignal(&signal, payloadLimitMax); refused != nil {
		return Signaled{}, sendError(refused)
	}
	sent, err := repeated(ctx, func(ctx context.Context) (persistence.Signals, error) {
		sent, err := o.backend.store.SendSignals(ctx, []persistence.Signal{signal})
		if err == nil && sent.Answers[0].Result == persistence.SignalBusy {
			err = sent.Answers[0].Err
		}
		return sent, err
	})
	if err != nil {
		return Signaled{}, fmt.Errorf("send signal %q: %w", name, err)
	}
	answer := sent.Answers[0]
	if refused := actors.SignalRefusal(&signal, answer); refused != nil {
		return Signaled{}, sendError(refused)
	}
	if wakes := wakesOf(sent.Wake); len(wakes) > 0 {
		o.backend.wake(ofCaller(ctx), wakes...)
	}
	return Signaled{Run: answer.Run, Repeated: answer.Result == persistence.SignalRepeated}, nil
}
