package actors

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// Refusal says why a trigger or a signal was not stored, and the remedy.
type Refusal struct { //nolint:errname // an answer in the first place, and an error for callers that want one
	Code   RefusalCode
	Field  string // of it; "": none in particular
	Remedy string
	Answer persistence.TriggerAnswer // of the store, if it was the one to refuse; of a signal its run and the error
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Field == "" {
		return fmt.Sprintf("refused: %s: %s", r.Code, r.Remedy)
	}
	return fmt.Sprintf("refused: %s: %s: %s", r.Code, r.Field, r.Remedy)
}

// RefusalCode says why a trigger was refused.
type RefusalCode string

// The codes of a refusal.
const (
	UnknownWorkflow RefusalCode = "unknown_workflow"
	BadInput        RefusalCode = "bad_input"
	KeyConflict     RefusalCode = "key_conflict"
	LimitReached    RefusalCode = "limit"
	TenantsFull     RefusalCode = "tenants_full"
	Overloaded      RefusalCode = "overloaded"
	Stopping        RefusalCode = "stopping"
	Unavailable     RefusalCode = "unavailable"

	UnknownSignal RefusalCode = "unknown_signal"
	RunNotFound   RefusalCode = "run_not_found"
	RunEnded      RefusalCode = "run_ended"
	InboxFull     RefusalCode = "inbox_full"
)

func refuse(code RefusalCode, field, remedy string) *Refusal {
	return &Refusal{Code: code, Field: field, Remedy: remedy}
}

func (r *Refusal) asMessage(request string) *messages.TriggerRefused {
	m := &messages.TriggerRefused{RequestId: request, Code: r.Code.message(), Field: r.Field, Remedy: r.Remedy}
	if !r.Answer.Run.IsZero() {
		m.Run = r.Answer.Run[:]
	}
	return m
}

func (c RefusalCode) message() messages.TriggerRefused_Code {
	return map[RefusalCode]messages.TriggerRefused_Code{
		UnknownWorkflow: messages.TriggerRefused_CODE_UNKNOWN_WORKFLOW, BadInput: messages.TriggerRefused_CODE_BAD_INPUT,
		KeyConflict: messages.TriggerRefused_CODE_KEY_CONFLICT, LimitReached: messages.TriggerRefused_CODE_LIMIT,
		TenantsFull: messages.TriggerRefused_CODE_TENANTS_FULL, Overloaded: messages.TriggerRefused_CODE_OVERLOADED,
		Stopping: messages.TriggerRefused_CODE_STOPPING, Unavailable: messages.TriggerRefused_CODE_UNAVAILABLE,
	}[c]
}

// errKeyBusy stands for a key that another transaction holds: not a refusal
// yet, the question is asked again.
var errKeyBusy = refuse(Unavailable, "key", "another transaction holds the key")

// refusalOf says why the store refused a question; nil: it did not. Of a group
// the first member that was refused for a reason of its own decides.
func refusalOf(triggers []persistence.Trigger, answers []persistence.TriggerAnswer) *Refusal {
	for i, a := range answers {
		if refused := answerRefusal(&triggers[i], a); refused != nil {
			refused.Answer = a
			return refused
		}
		if a.Result == persistence.KeyBusy {
			return errKeyBusy
		}
	}
	for _, a := range answers {
		if a.Result != persistence.Triggered && a.Result != persistence.Existing {
			return errKeyBusy // refused for the sake of another that was not: ask again
		}
	}
	return nil
}

// AnswerRefusal says why the store refused a trigger that did not go through
// intake; nil: it did not.
func AnswerRefusal(t *persistence.Trigger, a persistence.TriggerAnswer) *Refusal {
	if a.Result == persistence.KeyBusy {
		return errKeyBusy
	}
	refused := answerRefusal(t, a)
	if refused != nil {
		refused.Answer = a
	}
	return refused
}

func answerRefusal(t *persistence.Trigger, a persistence.TriggerAnswer) *Refusal {
	switch a.Result {
	case persistence.KeyConflict:
		return refuse(KeyConflict, "key", fmt.Sprintf("run %v has this key and another input: use another key", a.Run))
	case persistence.UnknownWorkflow:
		return refuse(UnknownWorkflow, "workflow", fmt.Sprintf("%q is not stored: register it on a pod first", t.Workflow))
	case persistence.UnknownQueue:
		return refuse(BadInput, "queue", fmt.Sprintf("no pod ever served %q: start one that does", t.Queue))
	case persistence.TriggerBadRow:
		return refuse(BadInput, "input", fmt.Sprintf("the database refuses a value: %v", a.Err))
	case persistence.TenantsFull:
		return refuse(TenantsFull, "tenant", fmt.Sprintf("no more tenants fit: %v", a.Err))
	case persistence.Triggered, persistence.Existing, persistence.KeyBusy, persistence.GroupRefused:
	}
	return nil
}

// triggerOf turns a message into a trigger: it evaluates the conditions on the input and
// checks the rest. It copies the bytes, which the sender may reuse once the message is
// answered.
func (rt *runtime) triggerOf(m *messages.TriggerRun) (persistence.Trigger, *Refusal) {
	if rt.evaluate == nil {
		return persistence.Trigger{}, refuse(UnknownWorkflow, "workflow", "this engine registers no workflow")
	}
	t := persistence.Trigger{
		Run: rt.newRunID(), Workflow: m.GetWorkflow(), Tenant: m.GetTenant(), Key: m.GetKey(), Input: bytes.Clone(m.GetInput()),
		At: instant(m.GetAt()), Queue: m.GetQueue(), Labels: maps.Clone(m.GetLabels()), TraceContext: m.GetTraceContext(), Origin: m.GetOrigin(),
	}
	if t.Tenant == "" {
		t.Tenant = rt.config.DefaultTenant
	}
	if t.Origin == "" {
		t.Origin = "message"
	}
	if refused := CheckTrigger(&t, rt.config.PayloadLimit); refused != nil {
		return t, refused
	}
	t.InputHash = inputHash(t.Input)
	switch err := rt.evaluate(&t); {
	case errors.Is(err, ErrUnknownWorkflow):
		return t, refuse(UnknownWorkflow, "workflow", fmt.Sprintf("%q is not registered with this engine: register it before Start", t.Workflow))
	case err != nil:
		return t, refuse(BadInput, "input", errorText(err))
	}
	if d := m.GetDefinition(); len(d) > 0 {
		if len(d) != len(t.Definition) {
			return t, refuse(BadInput, "definition", "pass the 32 bytes of a definition's hash, or none")
		}
		if [32]byte(d) != [32]byte(t.Definition) {
			return t, refuse(UnknownWorkflow, "definition", "this engine registers another version of the workflow")
		}
	}
	return t, nil
}

// Limits on what a trigger may carry.
const (
	nameBytesMax         = 255     // of a workflow, tenant, queue or origin: they are index keys
	keyBytesMax          = 1 << 10 // of an idempotency key: it is an index key, too
	labelsMax            = 64      // labels of one run: they travel with every claim
	labelBytesMax        = 1 << 10 // of a label's name and of its value
	traceContextBytesMax = 1 << 10 // W3C allows 512 for tracestate
	yearMin, yearMax     = 1970, 9999
)

func inputHash(input []byte) [32]byte { return sha256.Sum256(input) }

func triggerBytes(t *persistence.Trigger) int {
	size := len(t.Input) + 256 + len(t.Key) + len(t.Labels)*64
	if t.Signal != nil {
		size += signalBytes(t.Signal)
	}
	return size
}

// CheckTrigger returns why a trigger cannot be stored, or nil. It looks at
// sizes and characters only.
func CheckTrigger(t *persistence.Trigger, payloadLimit int) *Refusal {
	if t.Workflow == "" {
		return refuse(BadInput, "workflow", "name the workflow to run")
	}
	for _, field := range []struct {
		name, value string
		max         int
	}{
		{"workflow", t.Workflow, nameBytesMax},
		{"tenant", t.Tenant, nameBytesMax},
		{"queue", t.Queue, nameBytesMax},
		{"origin", t.Origin, nameBytesMax},
		{"key", t.Key, keyBytesMax},
		{"trace_context", t.TraceContext, traceContextBytesMax},
	} {
		if refused := checkText(field.name, field.value, field.max); refused != nil {
			return refused
		}
	}
	if len(t.Input) > payloadLimit {
		return refuse(LimitReached, "input", fmt.Sprintf(
			"%d bytes; at most %d: store the payload elsewhere and pass a reference", len(t.Input), payloadLimit))
	}
	if year := t.At.UTC().Year(); !t.At.IsZero() && (year < yearMin || year > yearMax) {
		return refuse(BadInput, "at", fmt.Sprintf("year %d: use one from %d to %d", year, yearMin, yearMax))
	}
	if t.Signal != nil {
		if refused := checkSignal(t.Signal, payloadLimit); refused != nil {
			return refused
		}
	}
	return checkLabels(t.Labels)
}

func signalBytes(s *persistence.Signal) int { return len(s.Payload) + len(s.ID) + len(s.Key.Key) + 256 }

// CheckSignal returns why a signal cannot be stored, or nil. It looks at sizes and
// characters only.
func CheckSignal(s *persistence.Signal, payloadLimit int) *Refusal {
	if s.Run.IsZero() {
		switch {
		case s.Key.Key == "":
			return refuse(BadInput, "key", "name a run, by its id or by its key")
		case s.Key.Workflow == "":
			return refuse(BadInput, "workflow", "name the workflow whose run has the key")
		}
	}
	return checkSignal(s, payloadLimit)
}

// checkSignal is CheckSignal for a signal of a trigger, which names no run.
func checkSignal(s *persistence.Signal, payloadLimit int) *Refusal {
	if s.Name == "" {
		return refuse(BadInput, "name", "name the signal")
	}
	for _, field := range []struct {
		name, value string
		max         int
	}{
		{"name", s.Name, nameBytesMax},
		{"id", s.ID, persistence.SignalIDMax},
		{"workflow", s.Key.Workflow, nameBytesMax},
		{"tenant", s.Tenant, nameBytesMax},
		{"tenant", s.Key.Tenant, nameBytesMax},
		{"key", s.Key.Key, keyBytesMax},
	} {
		if refused := checkText(field.name, field.value, field.max); refused != nil {
			return refused
		}
	}
	if len(s.Payload) > payloadLimit {
		return refuse(LimitReached, "payload", fmt.Sprintf(
			"%d bytes; at most %d: store the payload elsewhere and send a reference", len(s.Payload), payloadLimit))
	}
	return nil
}

// CheckFilter returns why no run and no dead letter can match a filter with
// these names and labels, or nil. It holds them to the bounds of a trigger.
func CheckFilter(tenant, workflow, step string, labels map[string]string) *Refusal {
	for _, field := range []struct{ name, value string }{{"Tenant", tenant}, {"Workflow", workflow}, {"Step", step}} {
		if refused := checkText(field.name, field.value, nameBytesMax); refused != nil {
			return refused
		}
	}
	refused := checkLabels(labels)
	if refused != nil {
		refused.Field = "Labels"
	}
	return refused
}

// CheckRunFilter returns why no run can match a filter, or nil. It holds the texts to the
// bounds of a trigger.
func CheckRunFilter(f *persistence.RunFilter) *Refusal {
	for _, field := range []struct {
		name, value string
		max         int
	}{
		{"Key", f.Key, keyBytesMax},
		{"Origin", f.Origin, nameBytesMax},
		{"Class", f.Class, nameBytesMax},
		{"FailedStep", f.FailedStep, nameBytesMax},
	} {
		if refused := checkText(field.name, field.value, field.max); refused != nil {
			return refused
		}
	}
	return CheckFilter(f.Tenant, f.Workflow, "", f.Labels)
}

func checkLabels(labels map[string]string) *Refusal {
	if len(labels) > labelsMax {
		return refuse(LimitReached, "labels", fmt.Sprintf("%d labels; at most %d", len(labels), labelsMax))
	}
	for name, value := range labels {
		if name == "" {
			return refuse(BadInput, "labels", "a label has no name")
		}
		if refused := checkText("labels", name, labelBytesMax); refused != nil {
			return refused
		}
		if refused := checkText("labels", value, labelBytesMax); refused != nil {
			return refused
		}
	}
	return nil
}

func checkText(field, value string, limit int) *Refusal {
	switch {
	case len(value) > limit:
		return refuse(LimitReached, field, fmt.Sprintf("%d bytes; at most %d", len(value), limit))
	case strings.ContainsRune(value, 0):
		return refuse(BadInput, field, "remove the NUL character")
	case !utf8.ValidString(value):
		return refuse(BadInput, field, "use valid UTF-8")
	}
	return nil
}
