package actors

import (
	"maps"
	"slices"
	"sync"
)

// inflight are the step functions that are being executed in this process, whatever
// happened to their tasks and actors. It is safe for concurrent use.
type inflight struct {
	mu        sync.Mutex
	functions map[string]*function // by the names of run actors
}

// function is one of them.
type function struct {
	pool     string
	detached bool // the actors that called it are gone
}

// functionReturned tells runs that a function has returned whose actor is gone.
type functionReturned struct{ name string }

func newInflight() *inflight { return &inflight{functions: map[string]*function{}} }

func (w *inflight) begin(name, pool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions[name] = &function{pool: pool}
}

// end notes that a function has returned, and reports whether its actor is gone.
func (w *inflight) end(name string) (detached bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.functions[name]
	delete(w.functions, name)
	return f != nil && f.detached
}

// detach marks all running functions as detached, and returns their pools by name. It is
// called by a new incarnation, which has called none of them.
func (w *inflight) detach() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	pools := make(map[string]string, len(w.functions))
	for name, f := range w.functions {
		f.detached = true
		pools[name] = f.pool
	}
	return pools
}

// watched is the body of an attempt, counted until it returns.
func (rt *runtime) watched(name, pool string, body func(deliver func(any))) func(deliver func(any)) {
	rt.inflight.begin(name, pool)
	return func(deliver func(any)) {
		defer func() {
			if rt.inflight.end(name) {
				rt.arrive(rt.addresses.runs, &functionReturned{name: name})
			}
		}()
		body(deliver)
	}
}

// adoptDetached keeps the slots of functions that a former incarnation called, until they
// return: their contexts have ended.
func (a *runs) adoptDetached() {
	pools := a.rt.inflight.detach()
	if len(pools) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(pools))
	for _, name := range names {
		a.carryover.ledger.detached(name, pools[name])
	}
	a.later(unresponsiveAfter, func() { a.onDetachedDue(names) })
}

// onDetachedDue gives up on functions that have not returned, as on other unresponsive
// ones.
func (a *runs) onDetachedDue(names []string) {
	for _, name := range names {
		a.carryover.ledger.overdue(name)
	}
	a.settle()
}
