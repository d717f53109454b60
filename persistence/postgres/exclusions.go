package postgres

import (
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// exclusions are what a statement leaves out.
type exclusions struct {
	runs        pgsql.UUIDs
	tenants     []int64 // groups
	counters    []int64 // those of them whose counters are locked
	definitions []int32
}

func (e *exclusions) any() bool { return len(e.runs)+len(e.tenants)+len(e.definitions) > 0 }

// excluded returns what rests now.
func (q *quarantine) excluded() exclusions {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	q.forget(now)
	e := exclusions{runs: pgsql.UUIDs{}, tenants: []int64{}, counters: []int64{}, definitions: []int32{}}
	for run, r := range q.runs {
		if r.rests(now) {
			e.runs = append(e.runs, run)
		}
	}
	for group, t := range q.tenants {
		if t.rests(now) {
			e.tenants = append(e.tenants, int64(group))
			if t.reason == reasonCounters {
				e.counters = append(e.counters, int64(group))
			}
		}
	}
	for number := range q.definitions { // until it is known that they are there
		e.definitions = append(e.definitions, number)
	}
	return e
}
