package actors

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// SignalRefusal says why the store refused a signal; nil: it did not.
func SignalRefusal(s *persistence.Signal, a persistence.SignalAnswer) *Refusal {
	refused := signalRefusal(s, a)
	if refused != nil {
		refused.Answer.Run, refused.Answer.Err = a.Run, a.Err
	}
	return refused
}

func signalRefusal(s *persistence.Signal, a persistence.SignalAnswer) *Refusal {
	switch a.Result {
	case persistence.SignalNoRun:
		if s.Run.IsZero() {
			return refuse(RunNotFound, "key", fmt.Sprintf("no run of workflow %q and tenant %q has the key %q, or it is not committed yet: check all three, or send again once the run is there",
				s.Key.Workflow, s.Key.Tenant, s.Key.Key))
		}
		return refuse(RunNotFound, "run", fmt.Sprintf("no run %v belongs to this tenant: check the id and the tenant", s.Run))
	case persistence.SignalRunEnded:
		return refuse(RunEnded, "run", "nothing can take the signal any more: if the run failed, requeue it and send the signal to the run that continues")
	case persistence.SignalUnknown:
		if len(a.Names) == 0 {
			return refuse(UnknownSignal, "name", fmt.Sprintf("no step of the run waits for %q, nor for any signal: check the run", s.Name))
		}
		return refuse(UnknownSignal, "name", fmt.Sprintf("no step of the run waits for %q, only for %s", s.Name, strings.Join(a.Names, ", ")))
	case persistence.SignalInboxFull:
		return refuse(InboxFull, "run", fmt.Sprintf("it has %d signals that no step has taken: send more when steps have taken some", persistence.InboxMax))
	case persistence.SignalBadRow:
		if errors.Is(a.Err, persistence.ErrUnavailable) { // the definition of the run is not there
			return refuse(Unavailable, "run", "start a program that registers its workflow, then send the signal again")
		}
		return refuse(BadInput, "", "use values that the database can store")
	case persistence.SignalBusy:
		return refuse(Unavailable, "id", "a transaction that is still open sends a signal of this id: send again")
	case persistence.SignalStored, persistence.SignalRepeated:
	}
	return nil
}

// TriggerSignalRefusal says why the store refused the signal of a trigger whose run is there;
// nil: it did not, or there was none.
func TriggerSignalRefusal(t *persistence.Trigger, a persistence.TriggerAnswer) *Refusal {
	if t.Signal == nil {
		return nil
	}
	signal := *t.Signal
	signal.Run = a.Run
	return SignalRefusal(&signal, persistence.SignalAnswer{Result: a.Signal, Run: a.Run, Names: a.Names})
}

// refuseGone answers a caller that does not wait any more.
func refuseGone() *Refusal { return refuse(Unavailable, "", "the caller has gone") }

func (r *Refusal) asSignalMessage(request string) *messages.SignalRefused {
	m := &messages.SignalRefused{RequestId: request, Code: r.Code.signalMessage(), Field: r.Field, Remedy: r.Remedy}
	if !r.Answer.Run.IsZero() {
		m.Run = r.Answer.Run[:]
	}
	return m
}

func (c RefusalCode) signalMessage() messages.SignalRefused_Code {
	return map[RefusalCode]messages.SignalRefused_Code{
		UnknownSignal: messages.SignalRefused_CODE_UNKNOWN_SIGNAL, RunNotFound: messages.SignalRefused_CODE_RUN_NOT_FOUND,
		RunEnded: messages.SignalRefused_CODE_RUN_ENDED, InboxFull: messages.SignalRefused_CODE_INBOX_FULL,
		BadInput: messages.SignalRefused_CODE_BAD_INPUT, LimitReached: messages.SignalRefused_CODE_LIMIT,
		Overloaded: messages.SignalRefused_CODE_OVERLOADED, Stopping: messages.SignalRefused_CODE_STOPPING,
		Unavailable: messages.SignalRefused_CODE_UNAVAILABLE,
	}[c]
}
