package troupe

import (
	"maps"
	"time"
)

// TriggerOption tunes one trigger.
type TriggerOption func(*triggerOptions)

type triggerOptions struct {
	tenant string
	key    string
	at     time.Time
	queue  string
	labels map[string]string
	trace  string
}

// Tenant names the tenant of the run. Tenants are isolated from each other
// and served fairly.
func Tenant(name string) TriggerOption {
	return func(o *triggerOptions) { o.tenant = name }
}

// Key makes the trigger idempotent: while a run of this tenant and workflow
// with the same key exists, triggering again with an equal input returns that
// run, and with another input fails with [ErrKeyConflict].
func Key(key string) TriggerOption {
	return func(o *triggerOptions) { o.key = key }
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
// [TaskInfo].
func TraceContext(traceparent string) TriggerOption {
	return func(o *triggerOptions) { o.trace = traceparent }
}
