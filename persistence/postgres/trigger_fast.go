package postgres

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/places"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// recentRunAge is the age up to which a run cannot be in history, or on its way
// there: half of what the leader leaves it in place for after its end.
const recentRunAge = 30 * time.Second

// fastTrigger gathers the arguments of trigger_fast.
type fastTrigger struct {
	s     *Store
	known registry.Names

	columns *runColumns
	seen    map[workflow.RunID]bool
	oldest  workflow.RunID
	latest  workflow.RunID
	groups  map[string]int32 // of the tenants in it
	members []string
	tasks   int64 // of all runs

	counters map[places.Counter]*fastCounter
	roots    []fastRoot
}

// fastCounter counts the places that a tenant asks for in a queue.
type fastCounter struct {
	places.Counter
	places int64
	index  int32 // among all, from 1
}

// fastRoot is a task that is ready at once.
type fastRoot struct {
	trigger *persistence.Trigger
	step    int32
	handler int32
	queue   string
	counter *fastCounter
	nth     int64 // of the counter's places, from 1
}

func newFastTrigger(s *Store, known registry.Names, n int) *fastTrigger {
	return &fastTrigger{
		s: s, known: known, columns: newRunColumns(n), seen: make(map[workflow.RunID]bool, n),
		groups: map[string]int32{}, counters: map[places.Counter]*fastCounter{}, roots: make([]fastRoot, 0, n),
	}
}

// takes reports whether nothing about a trigger needs a decision.
func (f *fastTrigger) takes(t *persistence.Trigger) bool {
	d := f.known.Definitions[t.Definition]
	if d == nil || !d.Plain || t.Signal != nil || t.Key != "" || !t.At.IsZero() || len(t.Edges) > 0 || f.known.Queues[t.Queue] == 0 ||
		f.seen[t.Run] || refuseTrigger(*t) != nil {
		return false
	}
	f.seen[t.Run] = true
	return true
}

// meetTenants finds the groups of the tenants, and reports whether all have one.
func (f *fastTrigger) meetTenants(ctx context.Context, triggers []persistence.Trigger) (all bool, err error) {
	var strangers []string
	for i := range triggers {
		tenant := triggers[i].Tenant
		if _, seen := f.groups[tenant]; seen {
			continue
		}
		f.groups[tenant] = f.s.Catalog.TenantGroup(tenant)
		f.members = append(f.members, tenant)
		if f.groups[tenant] == 0 {
			strangers = append(strangers, tenant)
		}
	}
	if len(strangers) == 0 {
		return true, nil
	}
	found, err := f.s.findTenants(ctx, strangers)
	maps.Copy(f.groups, found)
	return len(found) == len(strangers), err
}

// findTenants finds the groups of tenants that this store has not met yet, and
// remembers them. Some may have none.
func (s *Store) findTenants(ctx context.Context, tenants []string) (found map[string]int32, err error) {
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		found = map[string]int32{}
		b := s.NewBatch()
		b.Add("find_tenants", pgsql.Named{"tenants": tenants}).Query(func(rows pgx.Rows) error { return readTenants(rows, found) })
		return pgsql.Send(ctx, s.Conns, b)
	})
	if err != nil {
		return nil, err
	}
	s.Catalog.KeepTenants(found)
	return found, nil
}

func (f *fastTrigger) add(t *persistence.Trigger) error {
	d, queue, group := f.known.Definitions[t.Definition], f.known.Queues[t.Queue], f.groups[t.Tenant]
	for _, step := range d.Roots {
		k := places.Counter{Queue: d.QueueOf(step, queue), Group: group}
		c := f.counters[k]
		if c == nil {
			c = &fastCounter{Counter: k}
			f.counters[k] = c
		}
		c.places++
		f.roots = append(f.roots, fastRoot{trigger: t, step: step, handler: d.Handlers[step], queue: registry.QueueName(cmp.Or(d.Node(step).Queue, t.Queue)), counter: c, nth: c.places})
	}
	if len(f.columns.runs) == 0 || bytes.Compare(t.Run[:], f.oldest[:]) < 0 {
		f.oldest = t.Run
	}
	if bytes.Compare(t.Run[:], f.latest[:]) > 0 {
		f.latest = t.Run
	}
	f.tasks += int64(d.Count)
	return f.columns.add(t, d, queue, group, true)
}

// named returns the arguments. Counters are in the order of their locks.
func (f *fastTrigger) named(take persistence.GrantRequest) pgsql.Named {
	counters := make([]*fastCounter, 0, len(f.counters))
	for _, c := range f.counters {
		counters = append(counters, c)
	}
	slices.SortFunc(counters, func(a, b *fastCounter) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	})
	var queues []int16
	var groups, memberGroups []int32
	var places []int64
	for i, c := range counters {
		c.index = int32(i + 1)
		queues, groups, places = append(queues, c.Queue), append(groups, c.Group), append(places, c.places)
	}
	for _, tenant := range f.members {
		memberGroups = append(memberGroups, f.groups[tenant])
	}
	n := len(f.roots)
	readyQueues, readyCounters, readyPlaces := make([]int16, n), make([]int32, n), make([]int64, n)
	runs, steps, handlers := make(pgsql.UUIDs, n), make([]int32, n), make([]int32, n)
	for i := range f.roots {
		e := &f.roots[i]
		readyQueues[i], readyCounters[i] = e.counter.Queue, e.counter.index
		readyPlaces[i] = lifecycle.FairID(e.counter.Group, lifecycle.LaneNew, e.nth-e.counter.places)
		runs[i], steps[i], handlers[i] = e.trigger.Run, e.step, e.handler
	}
	args := f.columns.named(time.Time{})
	delete(args, "now")
	maps.Copy(args, f.known.Numbers())
	maps.Copy(args, f.taking(take, counters, queues))
	maps.Copy(args, pgsql.Named{
		"oldest": [16]byte(f.oldest), "oldest_at": pgsql.MadeAt(f.oldest), "latest_at": pgsql.MadeAt(f.latest), "young": f.s.recentRunAge.Microseconds(),
		"members": f.members, "member_groups": memberGroups,
		"counter_queues": queues, "counter_groups": groups, "places": places,
		"ready_queues": readyQueues, "ready_counters": readyCounters, "ready_places": readyPlaces,
		"ready_runs": runs, "ready_steps": steps, "ready_handlers": handlers, "tasks": f.tasks,
	})
	return args
}

func (f *fastTrigger) answer(ctx context.Context, out *persistence.Triggers, triggers []persistence.Trigger, now time.Time) error {
	out.Now = now
	for i := range triggers {
		out.Answers[i] = persistence.TriggerAnswer{Result: persistence.Triggered, Run: triggers[i].Run}
	}
	ready := map[int16]int{}
	for i := range f.roots {
		ready[f.roots[i].counter.Queue]++
	}
	var err error
	out.Wake.Ready, err = f.s.ready(ctx, f.s.Conns, ready)
	return err
}
