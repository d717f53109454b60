package actors

import (
	"maps"
	"slices"
	"sync"
)

// working is which step functions are being executed in this process, whatever
// has become of their tasks, and of the actors that called them. It is safe for
// concurrent use.
type working struct {
	mu        sync.Mutex
	functions map[string]*function // by the names of run actors
}

// function is one of them.
type function struct {
	pool   string
	orphan bool // the actors that called it are gone
}

// functionReturned tells runs that a function has returned whose actor is gone.
type functionReturned struct{ name string }

func newWorking() *working { return &working{functions: map[string]*function{}} }

func (w *working) begin(name, pool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions[name] = &function{pool: pool}
}

// end notes that a function has returned, and reports whether its actor is gone.
func (w *working) end(name string) (orphan bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.functions[name]
	delete(w.functions, name)
	return f != nil && f.orphan
}

// orphans returns the pools of all that are being executed, by name, and marks
// them: whoever asks has called none of them.
func (w *working) orphans() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	pools := make(map[string]string, len(w.functions))
	for name, f := range w.functions {
		f.orphan = true
		pools[name] = f.pool
	}
	return pools
}

// watched is the body of an attempt that is known of until it returns.
func (rt *runtime) watched(name, pool string, body func(deliver func(any))) func(deliver func(any)) {
	rt.working.begin(name, pool)
	return func(deliver func(any)) {
		defer func() {
			if rt.working.end(name) {
				rt.arrive(rt.team.runs, &functionReturned{name: name})
			}
		}()
		body(deliver)
	}
}

// orphansDeaf is the time by which functions without an actor should have
// returned.
type orphansDeaf struct{ names []string }

// adoptOrphans lets functions that a former incarnation called keep their slots
// until they return: their contexts have ended.
func (a *runs) adoptOrphans() {
	pools := a.rt.working.orphans()
	if len(pools) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(pools))
	for _, name := range names {
		a.carryover.ledger.detached(name, pools[name])
	}
	a.rt.after(deafAfter, a.rt.team.runs, &orphansDeaf{names: names})
}

// onOrphansDeaf gives up on those that have not returned, as on others that are
// deaf.
func (a *runs) onOrphansDeaf(m *orphansDeaf) {
	for _, name := range m.names {
		a.carryover.ledger.overdue(name)
	}
	a.settle()
}
