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

// boundary is what goroutines of the embedder and the actors of one pod share. It
// is safe for concurrent use, and nothing in it blocks.
type boundary struct {
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
	unrenewed  string // why the last renewal failed; "": it did not
	mode       cluster.Mode
	epoch      int64     // of the term of this pod; 0: it does not lead
	led        time.Time // when this pod last heard of a leader, led, or joined
	running    bool      // up is closed
	stopping   bool
	leaving    bool // the pod hands back what it holds, and is dead to the database then
	ended      bool
	err        error
	degradedBy string
	deaf       time.Time // since when nothing listens for others; zero: something does
	submitted  time.Time // when a run was last stored in a transaction of the embedder's
	watchers   map[workflow.RunID]map[*watcher]struct{}
}

// watcher is one caller that waits for hints about a run.
type watcher struct{ hints chan struct{} }

func newBoundary(pending int, slack time.Duration, onJoined func(int64)) *boundary {
	return &boundary{
		permits: make(chan struct{}, pending), turn: make(chan struct{}, 1), up: make(chan struct{}), done: make(chan struct{}), onJoined: onJoined, leap: leap{slack: slack},
		watchers: map[workflow.RunID]map[*watcher]struct{}{},
	}
}

// admit waits for room for n triggers. release gives it back.
func (b *boundary) admit(ctx context.Context, n int) (release func(), err error) {
	taken := 0
	release = func() {
		for range taken {
			<-b.permits
		}
	}
	if err := b.enter(ctx, b.turn); err != nil {
		return nil, err
	}
	defer func() { <-b.turn }()
	for taken < min(n, cap(b.permits)) {
		if err := b.enter(ctx, b.permits); err != nil {
			release()
			return nil, err
		}
		taken++
	}
	return release, nil
}

func (b *boundary) enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.done:
		return ErrEnded
	}
}

// sawDatabaseTime notes what the database's clock said at an instant of ours.
func (b *boundary) sawDatabaseTime(database, local time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !database.IsZero() {
		b.offset = database.Sub(local)
	}
}

// databaseTime is what the database's clock says at an instant of ours, as far
// as is known.
func (b *boundary) databaseTime(local time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return local.Add(b.offset)
}

// sawClock notes what the database's clock said between two instants of ours, and returns
// by how much it has leapt at least.
func (b *boundary) sawClock(database, asked, answered time.Time) time.Duration {
	b.sawDatabaseTime(database, answered)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leap.saw(database, asked, answered)
}

// leaps returns what is known of the database's clock.
func (b *boundary) leaps() leap {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leap
}

// away notes that a store call has found the database away; here, that one has
// succeeded.
func (b *boundary) away(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connected, b.missed = time.Time{}, now
}

// listens notes whether something listens for what others notify.
func (b *boundary) listens(yes bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case yes:
		b.deaf = time.Time{}
	case b.deaf.IsZero():
		b.deaf = now
	}
}

// lastAway is when a store call last found the database away; zero: never.
func (b *boundary) lastAway() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.missed
}

func (b *boundary) here(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connected.IsZero() {
		b.connected = now
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
func (b *boundary) noWrites(why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses, b.refused = why, now
}

// toldDead notes that a call through the pool was answered with the pod's death;
// toldAlive, that one was not.
func (b *boundary) toldDead(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.strange.IsZero() {
		b.strange = now
	}
	b.stranger = now
}

// parted reports whether the database has gone on to say so while the lease was
// renewed. What was said before the pod had its lease back is over.
func (b *boundary) parted() bool {
	return b.lease == lifecycle.LeaseLive && b.stranger.Sub(b.strange) >= leadAwayMax
}

func (b *boundary) toldAlive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strange, b.stranger = time.Time{}, time.Time{}
}

// connectedSince is since when the database answers this pod.
func (b *boundary) connectedSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.connected
}

func (b *boundary) podNumber() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.number
}

func (b *boundary) joined(number int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number, b.lease = number, lifecycle.LeaseLive
	if b.onJoined != nil {
		b.onJoined(number)
	}
}

// begin closes up, once.
func (b *boundary) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		b.running = true
		close(b.up)
	}
}

func (b *boundary) leaseState(state lifecycle.LeaseState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease != lifecycle.LeaseLive {
		b.strange, b.stranger = time.Time{}, time.Time{}
	}
	b.lease = state
}

// renewal notes how the last one ended.
func (b *boundary) renewal(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unrenewed = ""
	if err != nil {
		b.unrenewed = persistence.Shown(err)
	}
}

func (b *boundary) leaseLives() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease == lifecycle.LeaseLive
}

func (b *boundary) feedMode(mode cluster.Mode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = mode
}

func (b *boundary) leading(epoch int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch = epoch
}

// heardLeader notes that somebody leads, or that nobody could be heard before.
func (b *boundary) heardLeader(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.led = now
}

// leaderless is for how long nobody has led as far as this pod can tell. The
// caller holds the lock.
func (b *boundary) leaderless(now time.Time) time.Duration {
	if b.epoch != 0 || b.led.IsZero() {
		return 0
	}
	return now.Sub(b.led)
}

func (b *boundary) degraded(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.degradedBy = why
}

func (b *boundary) submit(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submitted = now
}

// submits reports whether the embedder stores runs in transactions of its own:
// it has, not longer ago than within.
func (b *boundary) submits(now time.Time, within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.submitted.IsZero() && now.Sub(b.submitted) < within
}

func (b *boundary) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopping = true
}

func (b *boundary) isStopping() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopping
}

// end closes done, once.
func (b *boundary) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended, b.err = true, err
	close(b.done)
}

func (b *boundary) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// watch returns a channel that holds a token after every hint about a run.
func (b *boundary) watch(run workflow.RunID) (hints <-chan struct{}, stop func()) {
	w := &watcher{hints: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers[run] == nil {
		b.watchers[run] = map[*watcher]struct{}{}
	}
	b.watchers[run][w] = struct{}{}
	return w.hints, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers[run], w)
		if len(b.watchers[run]) == 0 {
			delete(b.watchers, run)
		}
	}
}

func (b *boundary) hint(run workflow.RunID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watchers[run] {
		w.wake()
	}
}

// watched returns the runs that callers wait for, in no order.
func (b *boundary) watched() []workflow.RunID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.watchers))
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
