package quarantine

import (
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Exclusions are what a statement leaves out.
type Exclusions struct {
	Runs        pgsql.UUIDs
	Tenants     []int64 // groups
	Counters    []int64 // those of them whose counters are locked
	Definitions []int32
}

// Any reports whether anything is left out.
func (e *Exclusions) Any() bool { return len(e.Runs)+len(e.Tenants)+len(e.Definitions) > 0 }

// Excluded returns what rests now.
func (q *Quarantine) Excluded() Exclusions {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	q.forget(now)
	e := Exclusions{Runs: pgsql.UUIDs{}, Tenants: []int64{}, Counters: []int64{}, Definitions: []int32{}}
	for run, r := range q.runs {
		if r.rests(now) {
			e.Runs = append(e.Runs, run)
		}
	}
	for group, t := range q.tenants {
		if t.rests(now) {
			e.Tenants = append(e.Tenants, int64(group))
			if t.reason == Counters {
				e.Counters = append(e.Counters, int64(group))
			}
		}
	}
	for number := range q.definitions { // until it is known that they are there
		e.Definitions = append(e.Definitions, number)
	}
	return e
}

// RestUntil has all that rests do so until an instant.
func (q *Quarantine) RestUntil(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.runs {
		r.until = until
	}
	for _, r := range q.tenants {
		r.until = until
	}
	for _, r := range q.definitions {
		r.until = until
	}
}

// Met returns how many runs were met for a reason.
func (q *Quarantine) Met(why Reason) (count int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.runs {
		if r.reason == why {
			count++
		}
	}
	return count
}
