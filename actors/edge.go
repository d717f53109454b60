package actors

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// edge is what goroutines of the embedder and the actors of one pod share. It
// is safe for concurrent use, and nothing in it blocks.
type edge struct {
	permits  chan struct{} // one per trigger of a call that may wait to be stored
	turn     chan struct{} // who holds its token takes permits
	up       chan struct{} // closed when the actors run for the first time
	done     chan struct{} // closed when the pod has ended
	onJoined func(number int64)

	mu         sync.Mutex
	number     int64         // of the pod
	offset     time.Duration // database's clock minus ours, as last seen
	leap       leap
	connected  time.Time // since when no store call found the database away
	missed     time.Time // when a store call last found the database away
	strange    time.Time // since when the database says through the pool that the pod is dead; zero: it does not
	stranger   time.Time // when it said so last
	refuses    string    // why a store call was last told that nothing can be written
	refused    time.Time // when
	lease      lifecycle.LeaseState
	mode       cluster.Mode
	epoch      int64     // of the term of this pod; 0: it does not lead
	led        time.Time // when this pod last heard of a leader, led, or joined
	running    bool      // up is closed
	stopping   bool
	ended      bool
	err        error
	degradedBy string
	deaf       time.Time // since when nothing listens for others; zero: something does
	unread     time.Time // when tasks were last passed over because they cannot be read
	submitted  time.Time // when a run was last stored in a transaction of the embedder's
	watchers   map[workflow.RunID]map[*watcher]struct{}
}

// watcher is one caller that waits for hints about a run.
type watcher struct{ hints chan struct{} }

func newEdge(pending int, slack time.Duration, onJoined func(int64)) *edge {
	return &edge{
		permits: make(chan struct{}, pending), turn: make(chan struct{}, 1), up: make(chan struct{}), done: make(chan struct{}), onJoined: onJoined, leap: leap{slack: slack},
		watchers: map[workflow.RunID]map[*watcher]struct{}{},
	}
}

// admit waits for room for n triggers. release gives it back.
func (e *edge) admit(ctx context.Context, n int) (release func(), err error) {
	taken := 0
	release = func() {
		for range taken {
			<-e.permits
		}
	}
	if err := e.enter(ctx, e.turn); err != nil {
		return nil, err
	}
	defer func() { <-e.turn }()
	for taken < min(n, cap(e.permits)) {
		if err := e.enter(ctx, e.permits); err != nil {
			release()
			return nil, err
		}
		taken++
	}
	return release, nil
}

func (e *edge) enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.done:
		return ErrEnded
	}
}

// sawDatabaseTime notes what the database's clock said at an instant of ours.
func (e *edge) sawDatabaseTime(database, local time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !database.IsZero() {
		e.offset = database.Sub(local)
	}
}

// databaseTime is what the database's clock says at an instant of ours, as far
// as is known.
func (e *edge) databaseTime(local time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return local.Add(e.offset)
}

// sawClock notes what the database's clock said between two instants of ours, and returns
// by how much it has leapt at least.
func (e *edge) sawClock(database, asked, answered time.Time) time.Duration {
	e.sawDatabaseTime(database, answered)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leap.saw(database, asked, answered)
}

// leaps returns what is known of the database's clock.
func (e *edge) leaps() leap {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leap
}

// away notes that a store call has found the database away; here, that one has
// succeeded.
func (e *edge) away(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connected, e.missed = time.Time{}, now
}

// listens notes whether something listens for what others notify.
func (e *edge) listens(yes bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case yes:
		e.deaf = time.Time{}
	case e.deaf.IsZero():
		e.deaf = now
	}
}

// passedOver notes that tasks cannot be read.
func (e *edge) passedOver(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unread = now
}

// lastAway is when a store call last found the database away; zero: never.
func (e *edge) lastAway() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missed
}

func (e *edge) here(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.connected.IsZero() {
		e.connected = now
	}
}

// Why a database takes no writes, with the remedy.
const (
	diskFull = "the database's disk is full, or takes no more for another cause, which the log tells: make room; what is refused is tried again until then"
	readOnly = "the database takes no writes (default_transaction_read_only, which providers turn on when a disk is nearly full, or a standby):" +
		" make it writable; what is refused is tried again until then"
	noResources = "the server lacks memory, locks, connections or temporary files for what it is asked (class 53, see the log): look for sessions that hold many of them" +
		" (max_locks_per_transaction, max_connections, temp_file_limit); what is refused is tried again until then"
)

// noWrites notes that nothing can be written, whatever it is.
func (e *edge) noWrites(why string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses, e.refused = why, now
}

// toldDead notes that a call through the pool was answered with the pod's death;
// toldAlive, that one was not.
func (e *edge) toldDead(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.strange.IsZero() {
		e.strange = now
	}
	e.stranger = now
}

// parted reports whether the database has gone on to say so while the lease was
// renewed. What was said before the pod had its lease back is over.
func (e *edge) parted() bool {
	return e.lease == lifecycle.LeaseLive && e.stranger.Sub(e.strange) >= leadAwayMax
}

func (e *edge) toldAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.strange, e.stranger = time.Time{}, time.Time{}
}

// connectedSince is since when the database answers this pod.
func (e *edge) connectedSince() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.connected
}

func (e *edge) podNumber() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.number
}

func (e *edge) joined(number int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number, e.lease = number, lifecycle.LeaseLive
	if e.onJoined != nil {
		e.onJoined(number)
	}
}

// begin closes up, once.
func (e *edge) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.running = true
		close(e.up)
	}
}

func (e *edge) leaseState(state lifecycle.LeaseState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease != lifecycle.LeaseLive {
		e.strange, e.stranger = time.Time{}, time.Time{}
	}
	e.lease = state
}

func (e *edge) leaseLives() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease == lifecycle.LeaseLive
}

func (e *edge) feedMode(mode cluster.Mode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode = mode
}

func (e *edge) leading(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = epoch
}

// heardLeader notes that somebody leads, or that nobody could be heard before.
func (e *edge) heardLeader(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.led = now
}

// leaderless is for how long nobody has led as far as this pod can tell. The
// caller holds the lock.
func (e *edge) leaderless(now time.Time) time.Duration {
	if e.epoch != 0 || e.led.IsZero() {
		return 0
	}
	return now.Sub(e.led)
}

func (e *edge) degraded(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.degradedBy = why
}

func (e *edge) submit(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.submitted = now
}

// submits reports whether the embedder stores runs in transactions of its own:
// it has, not longer ago than within.
func (e *edge) submits(now time.Time, within time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.submitted.IsZero() && now.Sub(e.submitted) < within
}

func (e *edge) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopping = true
}

func (e *edge) isStopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopping
}

// end closes done, once.
func (e *edge) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.ended, e.err = true, err
	close(e.done)
}

func (e *edge) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// watch returns a channel that holds a token after every hint about a run.
func (e *edge) watch(run workflow.RunID) (hints <-chan struct{}, stop func()) {
	w := &watcher{hints: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers[run] == nil {
		e.watchers[run] = map[*watcher]struct{}{}
	}
	e.watchers[run][w] = struct{}{}
	return w.hints, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers[run], w)
		if len(e.watchers[run]) == 0 {
			delete(e.watchers, run)
		}
	}
}

func (e *edge) hint(run workflow.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.watchers[run] {
		w.wake()
	}
}

// watched returns the runs that callers wait for, in no order.
func (e *edge) watched() []workflow.RunID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.watchers))
}

func (w *watcher) wake() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// recordOf returns a record of this pod without transitions.
func (rt *runtime) recordOf(pod int64) persistence.Record {
	return persistence.Record{
		Pod: pod, MaxLost: rt.config.MaxLost, CancelGrace: rt.config.CancelGrace, TenantLimit: rt.config.TenantLimit,
	}
}
