package actors

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/persistence"
)

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
	return len(t.Input) + 256 + len(t.Key) + len(t.Labels)*64
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
	return checkLabels(t.Labels)
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
