package troupe

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// TriggerOption tunes one trigger.
type TriggerOption func(*triggerOptions)

type triggerOptions struct {
	tenant string
	key    string
	keys   []string // of each input; nil: none has one of its own
	at     time.Time
	queue  string
	labels map[string]string
	trace  string
	first  *Message // of TriggerWithSignal
}

// Tenant names the tenant of the run. Tenants are isolated from each other
// and served fairly.
func Tenant(name string) TriggerOption {
	return func(o *triggerOptions) { o.tenant = name }
}

// Key makes the trigger idempotent: while a run of this tenant and workflow
// with the same key exists, triggering again with an equal input returns that
// run, and with another input fails with [ErrKeyConflict]. Key("") means no key.
func Key(key string) TriggerOption {
	return func(o *triggerOptions) { o.key = key }
}

// Keys gives each input of [Handle.RunMany] a key of its own, as [Key] does for one
// run: as many as there are inputs, "" for none. Keys that exist already, and a key
// that is given twice in one call, name one run: equal inputs get that run, other
// inputs fail all of the call with [ErrKeyConflict].
func Keys(keys []string) TriggerOption {
	own := slices.Clone(keys)
	return func(o *triggerOptions) { o.keys = own }
}

// At starts the run no earlier than the given instant, by the database's clock.
func At(at time.Time) TriggerOption {
	return func(o *triggerOptions) { o.at = at }
}

// OnQueue runs the steps that name no queue of their own on the given one. A
// queue that no pod has ever served is refused.
func OnQueue(name string) TriggerOption {
	return func(o *triggerOptions) { o.queue = name }
}

// Labels attaches labels, which listings select by ([Filter]) and every step
// finds in its [TaskInfo].
func Labels(labels map[string]string) TriggerOption {
	own := maps.Clone(labels) // a trigger may be under way after the call has returned
	return func(o *triggerOptions) { o.labels = own }
}

// TraceContext attaches a W3C trace context, which every step finds in its
// [TaskInfo], in place of what Config.TraceContext finds.
func TraceContext(traceparent string) TriggerOption {
	return func(o *triggerOptions) { o.trace = traceparent }
}

// checkKeys refuses keys that do not fit so many inputs.
func (o *triggerOptions) checkKeys(inputs int) error {
	refuse := func(remedy string) error { return &TriggerError{Code: BadInput, Field: "key", Remedy: remedy} }
	switch {
	case o.key != "" && o.keys != nil:
		return refuse("give Key or Keys, not both")
	case o.keys != nil && len(o.keys) != inputs:
		return refuse(fmt.Sprintf("%d keys for %d inputs: give one for each, \"\" for none", len(o.keys), inputs))
	case o.key != "" && inputs > 1:
		return refuse("one key names one run: give each input its own with Keys")
	}
	return nil
}
