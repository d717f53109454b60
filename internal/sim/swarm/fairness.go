package swarm

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// fairness counts for each tenant with ready tasks what others are given
// before it (I9).
type fairness struct {
	machines bool // some have been served
	queues   map[string]*line
	parked   map[workflow.TaskID]bool // out of the queues: they wait for a pod that knows them

	blocked  map[workflow.TaskID]bool      // claims leave them out; true: because of their tenant
	returned map[workflow.TaskID]time.Time // blocked before: until when claims may not have come back to their places
}

// comesBack is for how long claims may begin behind the place of a task that was blocked: the
// longest pause between two full scans of a queue.
const comesBack = 10 * time.Second

// line is one queue.
type line struct {
	tenants map[string]*waits
}

// waits is one tenant in a queue.
type waits struct {
	ready  map[workflow.TaskID]bool
	passed map[string]int // dispatches of others since its own last, or since it had nothing ready
	ghosts int            // tasks that left the queue without a dispatch: their places count as turns
	back   int            // tasks that were left out for a while and kept their places, before those of others
}

func newFairness() *fairness {
	return &fairness{queues: map[string]*line{}, returned: map[workflow.TaskID]time.Time{}}
}

// enter books one event of a task.
func (f *fairness) enter(o *oracle, run *snapshot.Run, e *lifecycle.Event) {
	if run.Task(e.Step).Traits.Has(workflow.TraitMachine) { // its wake and its claim are no events
		f.machines = true
		return
	}
	node := nodeOf(run, e.Step)
	name := node.Queue
	if name == "" {
		name = actors.DefaultQueue // the load names none for whole runs
	}
	q := f.queues[name]
	if q == nil {
		q = &line{tenants: map[string]*waits{}}
		f.queues[name] = q
	}
	w := q.tenants[run.Tenant]
	if w == nil {
		w = &waits{ready: map[workflow.TaskID]bool{}, passed: map[string]int{}}
		q.tenants[run.Tenant] = w
	}
	task := workflow.TaskID{Run: run.ID, Step: e.Step}
	switch {
	case e.Kind.Next() == lifecycle.Queued && run.Task(e.Step).Flags.Has(lifecycle.FlagSuspect): // a pod takes one such task at a time
	case e.Kind.Next() == lifecycle.Queued:
		if len(w.ready) == 0 {
			clear(w.passed)
		}
		w.ready[task] = true
	case e.Kind == lifecycle.EventStarted:
		delete(w.ready, task)
		delete(f.returned, task)
		clear(w.passed)
		f.pass(o, q, run.Tenant)
	case w.ready[task]:
		delete(w.ready, task)
		delete(f.returned, task)
		w.ghosts++
	}
}

// park learns which tasks are parked. Those that were put back begin anew.
func (f *fairness) park(rows []snapshot.QueueRow) {
	f.parked = map[workflow.TaskID]bool{}
	for i := range rows {
		if rows[i].Parked {
			f.parked[rows[i].Task] = true
		}
	}
	for _, q := range f.queues {
		for _, w := range q.tenants {
			clear(w.passed)
		}
	}
}

// aside counts the tasks of a tenant that are parked or blocked, or were so a moment ago.
// Their places count as turns: what the tenant makes ready meanwhile stands behind them.
func (f *fairness) aside(w *waits, now time.Time) int {
	n := 0
	for task := range w.ready {
		_, blocked := f.blocked[task]
		until, returned := f.returned[task]
		if returned && !now.Before(until) {
			delete(f.returned, task)
			clear(w.passed) // counted anew, with fewer aside
			returned = false
		}
		if blocked || returned || f.parked[task] {
			n++
		}
	}
	return n
}

// look learns which ready tasks claims leave out. When that changes counts begin anew.
func (f *fairness) look(o *oracle) {
	w := o.seed.world
	list := w.Blocked()
	if len(list)+len(f.blocked) == 0 {
		return
	}
	was := f.blocked
	f.blocked = map[workflow.TaskID]bool{}
	changed := false
	for _, q := range f.queues {
		for name, tenant := range q.tenants {
			locked := slices.Contains(list, memory.Blocked{Tenant: name})
			for task := range tenant.ready {
				before, had := was[task]
				now := w.Model().IsBlocked(task.Run)
				if now {
					f.blocked[task] = locked
				}
				changed = changed || now != had
				if had && !before && !now {
					tenant.back++
					f.returned[task] = w.Now().Add(comesBack)
				}
			}
		}
	}
	for _, q := range f.queues {
		for _, tenant := range q.tenants {
			if changed {
				clear(tenant.passed)
			}
		}
	}
}

// pass counts a dispatch of a tenant for all others that wait. One that waits
// is passed over once for each lane and in both directions of a late start,
// and what is in flight comes on top. Under a limit of tenants, and where not
// every pod can execute everything, there are other reasons to wait.
func (f *fairness) pass(o *oracle, q *line, tenant string) {
	s := o.seed
	if s.setting.partial || s.setting.deploy || s.setting.limit > 0 || f.machines {
		return
	}
	f.look(o)
	for _, name := range slices.Sorted(maps.Keys(q.tenants)) {
		w := q.tenants[name]
		aside := f.aside(w, s.world.Now())
		if name == tenant || aside == len(w.ready) {
			continue
		}
		if w.passed[tenant]++; w.passed[tenant] > 4+s.setting.pods*s.setting.slots+2*(w.ghosts+aside)+q.tenants[tenant].back {
			s.world.Fail("I9", "%s has %d ready tasks and waits while %s is given %d", name, len(w.ready), tenant, w.passed[tenant])
		}
	}
}
