// Package quarantine remembers what cannot be worked on for now, so that it does not delay the rest.
package quarantine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// Reason is why something is in quarantine.
type Reason string

const (
	Locked     Reason = "locked"          // another session has locked rows of it
	Counters   Reason = "counters locked" // of a tenant: another session has locked what gives its tasks places
	Unreadable Reason = "unreadable"      // the server cannot read what it has stored
	Missing    Reason = "missing"         // of a definition: it was removed, or a later version of the engine stored it; of a run: it was deleted
)

const (
	// RestMin is how long the first rest lasts; each further one takes twice as long, up
	// to RestMax. What is locked must be tried often enough to drain soon after its
	// release.
	RestMin = 2 * time.Second
	// RestMax is the longest rest, restMaxUnread that of what cannot be read.
	RestMax       = 10 * time.Second
	restMaxUnread = time.Minute
	// restKept is for how long after a rest its length is remembered.
	restKept = time.Minute
	// Max bounds the runs that are remembered.
	Max = 10_000
	// TenantRuns is how many locked runs of one tenant have the whole tenant rest.
	TenantRuns = 8
	// skipFor is for how long after a lock was met claims look for locks, and transactions
	// do not wait for long.
	skipFor = 10 * time.Second
	// AgainMin is after how long at least a caller is to look again at what was left out.
	AgainMin = 200 * time.Millisecond
	// warnEvery is how often the log says at most that locks are in the way.
	warnEvery = time.Minute
)

// Quarantine keeps runs, tenants and definitions that cannot be worked on for now out of
// the way of all others. Each rests for a while, and for longer each time that it is met
// again. Claims, timers, takeovers and the intake leave it out meanwhile; completions are
// answered Busy. It lives in memory: every pod makes its own observations. It is safe
// for concurrent use.
type Quarantine struct {
	Log *slog.Logger // nil: nothing is logged

	mu          sync.Mutex
	runs        map[workflow.RunID]*rest
	tenants     map[int32]*rest // by group
	definitions map[int32]*rest
	skipUntil   time.Time
	warned      time.Time
}

// rest is the state of one entry.
type rest struct {
	reason Reason
	until  time.Time
	tries  int  // rests so far
	runs   int  // of a tenant: locked runs since its last rest
	due    bool // of a tenant: its backlog has to be placed anew once it has rested

	tenant *rest // of a run: the tenant that counts it, and for which of its rests
	count  int
}

// New returns an empty quarantine. Without a log nothing is logged.
func New(log *slog.Logger) *Quarantine {
	return &Quarantine{
		Log: log, runs: map[workflow.RunID]*rest{}, tenants: map[int32]*rest{}, definitions: map[int32]*rest{},
	}
}

// begin begins a rest.
func (r *rest) begin(why Reason, now time.Time) {
	most := RestMax
	if why == Unreadable {
		most = restMaxUnread
	}
	r.reason, r.until, r.runs = why, now.Add(min(RestMin<<min(r.tries, 10), most)), 0
	r.tries++
}

func (r *rest) rests(now time.Time) bool { return r != nil && now.Before(r.until) }

// entry returns the entry of a key.
func entry[K comparable](entries map[K]*rest, key K, now time.Time) (r *rest, known bool) {
	if r, known = entries[key]; !known {
		r = &rest{until: now}
		entries[key] = r
	}
	return r, known
}

// forget removes what was not met for long. q is locked.
func (q *Quarantine) forget(now time.Time) {
	maps.DeleteFunc(q.runs, func(_ workflow.RunID, r *rest) bool { return now.Sub(r.until) >= restKept })
	maps.DeleteFunc(q.tenants, func(_ int32, r *rest) bool { return now.Sub(r.until) >= restKept })
}

// LockTimeout notes that a lock was not granted in time.
func (q *Quarantine) LockTimeout(ctx context.Context) {
	now := clock.System{}.Now()
	q.mu.Lock()
	q.skipUntil = now.Add(skipFor)
	warn := q.Log != nil && (q.warned.IsZero() || now.Sub(q.warned) >= warnEvery)
	if warn {
		q.warned = now
	}
	q.mu.Unlock()
	if warn {
		q.Log.LogAttrs(ctx, slog.LevelWarn, "another session locks rows of the engine for too long: its runs rest, and others do not wait for them; troupe explain of a run that waits names the session")
	}
}

// Skipping reports whether locks are in the way.
func (q *Quarantine) Skipping() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return clock.System{}.Now().Before(q.skipUntil)
}

// AddLocked has runs rest that are locked, given with the groups of their tenants. A
// tenant of which many are locked rests as a whole.
func (q *Quarantine) AddLocked(runs map[workflow.RunID]int32) {
	if len(runs) == 0 {
		return
	}
	now := clock.System{}.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(now)
	for run, group := range runs {
		if len(q.runs) >= Max && q.runs[run] == nil {
			continue
		}
		r, _ := entry(q.runs, run, now)
		if r.rests(now) {
			continue
		}
		r.begin(Locked, now)
		q.skipUntil = pgsql.Later(q.skipUntil, r.until.Add(skipFor))
		if group == 0 {
			continue
		}
		if t, _ := entry(q.tenants, group, now); !t.rests(now) && (r.tenant != t || r.count != t.tries) {
			r.tenant, r.count = t, t.tries
			if t.runs++; t.runs >= TenantRuns {
				t.begin(Locked, now)
				t.due = true
			}
		}
	}
}

// AddCounters has tenants rest whose counters are locked.
func (q *Quarantine) AddCounters(groups []int32) {
	now := clock.System{}.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, group := range groups {
		t, _ := entry(q.tenants, group, now)
		if t.rests(now) && t.reason == Counters {
			continue
		}
		t.begin(Counters, now)
		t.due = true
		q.skipUntil = pgsql.Later(q.skipUntil, t.until.Add(skipFor))
	}
}

// AddUnreadable has a run rest that cannot be read, and names it in the log. It returns
// an error if there are too many.
func (q *Quarantine) AddUnreadable(ctx context.Context, run workflow.RunID, cause error) error {
	now := clock.System{}.Now()
	q.mu.Lock()
	q.forget(now)
	if len(q.runs) >= Max && q.runs[run] == nil {
		q.mu.Unlock()
		return fmt.Errorf("more than %d runs cannot be read: restore what the disk has lost: %w", Max, cause)
	}
	r, _ := entry(q.runs, run, now)
	known := r.reason == Unreadable
	if !known || !r.rests(now) {
		r.begin(Unreadable, now)
	}
	q.mu.Unlock()
	if !known && q.Log != nil {
		q.Log.LogAttrs(ctx, slog.LevelError, "a run cannot be read, and rests for a while: restore what was lost",
			slog.String("run_id", run.String()), slog.Any("error", cause))
	}
	return nil
}

// AddDeleted has a run rest that was deleted while pods hold tasks of it.
func (q *Quarantine) AddDeleted(run workflow.RunID) {
	now := clock.System{}.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(now)
	if len(q.runs) >= Max && q.runs[run] == nil {
		return
	}
	if r, _ := entry(q.runs, run, now); !r.rests(now) {
		r.begin(Missing, now)
	}
}

// AddDefinition has the runs of a definition rest that is not there.
func (q *Quarantine) AddDefinition(ctx context.Context, number int32) {
	now := clock.System{}.Now()
	q.mu.Lock()
	d, known := entry(q.definitions, number, now)
	if !d.rests(now) {
		d.begin(Missing, now)
	}
	q.mu.Unlock()
	if !known && q.Log != nil {
		q.Log.LogAttrs(ctx, slog.LevelError, "the definition of a workflow is not there, or is of a later version of the engine; its runs rest: start the program that has it, which registers it again",
			slog.Int("definition", int(number)))
	}
}

// RemoveDefinitions ends the rest of definitions that are there again.
func (q *Quarantine) RemoveDefinitions(found []*registry.Definition) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range found {
		delete(q.definitions, d.Number)
	}
}

// UnlockCounters notes that the counters of tenants are not locked any more.
func (q *Quarantine) UnlockCounters(groups []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, group := range groups {
		if t := q.tenants[group]; t != nil && t.reason == Counters {
			t.reason = Locked
		}
	}
}

// OfRuns returns the runs of tasks that rest, and the tasks of those that have rested: they
// are looked at before they are used.
func (q *Quarantine) OfRuns(tasks []workflow.TaskID) (resting map[workflow.RunID]bool, over []workflow.TaskID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.runs) == 0 {
		return nil, nil
	}
	now := clock.System{}.Now()
	resting = map[workflow.RunID]bool{}
	for _, task := range tasks {
		switch r := q.runs[task.Run]; {
		case r.rests(now):
			resting[task.Run] = true
		case r != nil && r.reason == Locked:
			over = append(over, task)
		}
	}
	return resting, over
}

// AnyCounters reports whether a tenant rests because its counters are locked.
func (q *Quarantine) AnyCounters() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.tenants {
		if t.reason == Counters {
			return true
		}
	}
	return false
}

// LockedCounters tells of groups which rest because their counters are locked, and which
// have rested for that and have to be looked at again.
func (q *Quarantine) LockedCounters(groups []int32) (resting map[int32]bool, over []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	resting = map[int32]bool{}
	for _, group := range groups {
		switch t := q.tenants[group]; {
		case t == nil || t.reason != Counters:
		case t.rests(now):
			resting[group] = true
		case !slices.Contains(over, group):
			over = append(over, group)
		}
	}
	return resting, over
}

// RestedDefinitions returns the definitions that have rested.
func (q *Quarantine) RestedDefinitions() (numbers []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	for number, d := range q.definitions {
		if !d.rests(now) {
			d.begin(Missing, now) // the caller asks
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// RestedTenants returns the tenants that have rested and whose backlog is to be placed
// anew.
func (q *Quarantine) RestedTenants() (groups []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	for group, t := range q.tenants {
		if t.due && !t.rests(now) {
			groups = append(groups, group)
		}
	}
	return groups
}

// Placed notes that the backlog of a tenant was placed anew, or has it rest for as long
// as that takes.
func (q *Quarantine) Placed(group int32, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.tenants[group]; t != nil {
		t.due = !all
		if !all {
			t.until = clock.System{}.Now().Add(AgainMin)
		}
	}
}

// Again returns after how long a caller is to look again at what it left out; 0: nothing
// rests.
func (q *Quarantine) Again() (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := clock.System{}.Now()
	next := func(r *rest) {
		if left := r.until.Sub(now); left > 0 && (wait == 0 || left < wait) {
			wait = max(left, AgainMin)
		}
	}
	for _, r := range q.runs {
		next(r)
	}
	for _, r := range q.tenants {
		next(r)
	}
	for _, r := range q.definitions {
		next(r)
	}
	return wait
}
