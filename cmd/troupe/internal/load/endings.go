package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
)

const (
	// lookMax is how many runs one look at the database asks for.
	lookMax = 1000
	// lookAgain is the wait after a look that left some of them open, and
	// lookMore what each run adds to it. Few are looked at often, for the sake
	// of short latencies; many, which have long ones, so seldom that the looks
	// cost little beside what is measured.
	lookAgain = 500 * time.Microsecond
	lookMore  = 50 * time.Microsecond
	lookWait  = 20 * time.Millisecond // at most
	lookShare = 4                     // a run is looked at again when what it has taken has grown by one in so many
	lookFew   = 10                    // of these, no wait if all have ended
)

// waitAfter is the wait after a look.
func waitAfter(asked, left int) time.Duration {
	if left == 0 && asked < lookFew {
		return 0
	}
	return min(lookWait, lookAgain+time.Duration(asked)*lookMore)
}

// ending is a run whose last step has returned.
type ending struct {
	run   troupe.RunID
	at    int64
	pod   int // that triggered it
	fatal bool

	returned time.Time // when the last step did
	next     time.Time // when it is to be looked at
}

// later sets the time of the next look. It comes the later, the longer the run
// has been looked at: a database that is slow is not to be asked all the time
// whether it is done.
func (a *ending) later(now time.Time) {
	a.next = now.Add(min(lookWait, max(lookAgain, now.Sub(a.returned)/lookShare)))
}

// endings finds out when runs have ended for all to see. A step function
// returns before its completion is durable, so whatever executes a last step
// names the run here, and it is looked up until it is recorded as ended: many
// in one statement, and none before it is likely.
type endings struct {
	pool    *pgxpool.Pool
	ended   *Histogram
	seen    []atomic.Int64 // by the pod that triggered the run
	failed  atomic.Int64   // of those that were asked to
	last    atomic.Int64   // when one was last seen to end
	looks   atomic.Int64   // at the database
	release func()         // called for each run of this pod
	own     int            // the number of this pod
	foreign chan struct{}  // has something in it when a run of another pod has ended

	mu      sync.Mutex
	waiting []ending
	more    chan struct{}
}

func newEndings(pool *pgxpool.Pool, l Load, ended *Histogram, release func()) *endings {
	return &endings{
		pool: pool, ended: ended, seen: make([]atomic.Int64, l.Pods), release: release, own: l.Index,
		foreign: make(chan struct{}, 1), more: make(chan struct{}, 1),
	}
}

// openLooks opens the connections for looks. A table that is small when a
// statement is planned grows, so plans that read all of it are ruled out.
func openLooks(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 1
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	return pgxpool.NewWithConfig(ctx, config)
}

// expect is called when the last step of a run returns.
func (e *endings) expect(run troupe.RunID, in order, fatal bool) {
	now := time.Now()
	a := ending{run: run, at: in.At, pod: in.Pod, fatal: fatal, returned: now}
	a.later(now)
	e.mu.Lock()
	e.waiting = append(e.waiting, a)
	e.mu.Unlock()
	signal(e.more)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follow looks until ctx ends.
func (e *endings) follow(ctx context.Context) error {
	var open, due []ending
	for ctx.Err() == nil {
		open = e.take(open)
		if len(open) == 0 {
			select {
			case <-e.more:
			case <-ctx.Done():
			}
			continue
		}
		var first time.Time
		if due, open, first = split(open, due[:0], time.Now()); len(due) == 0 {
			e.rest(ctx, first)
			continue
		}
		left, err := e.look(ctx, due)
		if err != nil && ctx.Err() == nil {
			return err
		}
		open = append(open, left...)
		waitUntil(ctx, time.Now().Add(waitAfter(len(due), len(left))))
	}
	return nil
}

// split moves what is due from the open ones to due, and returns when the first
// of the rest is.
func split(open, due []ending, now time.Time) (nowDue, rest []ending, first time.Time) {
	rest = open[:0]
	for _, a := range open {
		if !a.next.After(now) {
			due = append(due, a)
			continue
		}
		if first.IsZero() || a.next.Before(first) {
			first = a.next
		}
		rest = append(rest, a)
	}
	return due, rest, first
}

// rest waits until an instant, or until there is more to look for.
func (e *endings) rest(ctx context.Context, until time.Time) {
	if time.Until(until) < 2*lookAgain {
		waitUntil(ctx, until)
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.more:
	case <-ctx.Done():
	}
}

// take adds the oldest of those that wait to the open ones.
func (e *endings) take(open []ending) []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.waiting), lookMax-len(open))
	open = append(open, e.waiting[:n]...)
	e.waiting = append(e.waiting[:0], e.waiting[n:]...)
	return open
}

const openSQL = `select open.id from unnest($1::uuid[]) as asked (id)
	cross join lateral (select r.id from troupe.workflow_runs r where r.id = asked.id and r.state < 10 offset 0) open`

// look records those that have ended, and returns the others.
func (e *endings) look(ctx context.Context, asked []ending) ([]ending, error) {
	e.looks.Add(1)
	ids := make([][16]byte, len(asked))
	for i, a := range asked {
		ids[i] = a.run
	}
	rows, err := e.pool.Query(ctx, openSQL, ids)
	if err != nil {
		return nil, err
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, errors.Join(errors.New("look for ended runs"), err)
	}
	now := time.Now()
	still := make(map[[16]byte]bool, len(open))
	for _, id := range open {
		still[id] = true
	}
	left := asked[:0]
	for _, a := range asked {
		if still[a.run] {
			a.later(now)
			left = append(left, a)
			continue
		}
		e.record(a, now.UnixNano())
	}
	return left, nil
}

func (e *endings) record(a ending, now int64) {
	e.last.Store(now)
	e.ended.Record(time.Duration(now - a.at))
	if a.fatal {
		e.failed.Add(1)
	}
	e.seen[a.pod].Add(1)
	if a.pod == e.own {
		e.release()
		return
	}
	signal(e.foreign)
}

func (e *endings) counts() []int64 {
	counts := make([]int64, len(e.seen))
	for i := range e.seen {
		counts[i] = e.seen[i].Load()
	}
	return counts
}
