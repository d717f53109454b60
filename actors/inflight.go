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
	functions []*function
}

// function is one of them.
type function struct {
	name     string // of its run actor
	pool     string
	at       int  // in inflight.functions
	detached bool // the actors that called it are gone
}

// functionReturned tells runs that a function has returned that was given up: its actor is gone, or
// its report is not recorded yet.
type functionReturned struct{ name string }

func newInflight() *inflight { return &inflight{} }

func (w *inflight) begin(name, pool string) *function {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &function{name: name, pool: pool, at: len(w.functions)}
	w.functions = append(w.functions, f)
	return f
}

// end notes that a function has returned, and reports whether its actor is gone.
func (w *inflight) end(f *function) (detached bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.functions) - 1
	w.functions[f.at], w.functions[last].at = w.functions[last], f.at
	w.functions[last] = nil
	w.functions = w.functions[:last]
	return f.detached
}

// detach marks all running functions as detached, and returns their pools by name. It is
// called by a new incarnation, which has called none of them.
func (w *inflight) detach() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	pools := make(map[string]string, len(w.functions))
	for _, f := range w.functions {
		f.detached = true
		pools[f.name] = f.pool
	}
	return pools
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
