package actors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// podStatus is what the goroutines of the embedder and the actors of one pod share. It is
// safe for concurrent use, and nothing in it blocks.
type podStatus struct {
	guarded[podFacts]

	waiting  guarded[watchers]
	permits  chan struct{} // one per trigger of a call that may wait to be stored
	turn     chan struct{} // its token admits one caller at a time to the permits
	up       chan struct{} // closed when the actors run for the first time
	done     chan struct{} // closed when the pod has ended
	onJoined func(number int64)
}

// podFacts is the state of a pod as its embedder sees it.
type podFacts struct {
	number      int64         // of the pod
	offset      time.Duration // database's clock minus the pod's, as last seen
	deadSince   time.Time     // first time the pool reported this pod dead; zero: it does not
	deadLast    time.Time     // last time it did
	noWrites    string        // why the last rejected write failed
	noWritesAt  time.Time
	lease       lifecycle.LeaseState
	unrenewed   string // why the last renewal failed; "": it did not
	mode        cluster.Mode
	executing   int       // living pods that execute tasks, as last heard
	epoch       int64     // of this pod's term; 0: it does not lead
	led         time.Time // last sign of a leader, or the time the pod joined
	running     bool      // up is closed
	stopping    bool
	leaving     bool // the pod hands its tasks back, so its row will be gone
	ended       bool
	err         error
	degraded    string
	parked      string    // which work no living pod can execute, as the leader; "": none
	unheard     time.Time // start of the time without a listening connection; zero: there is one
	submittedAt time.Time // last time that a run was stored in a transaction of the embedder
}

// watchers are the callers that wait for hints about runs.
type watchers map[workflow.RunID]map[*watcher]struct{}

type watcher struct{ hints chan struct{} }

func newPodStatus(pending int, onJoined func(int64)) *podStatus {
	return &podStatus{
		waiting: guarded[watchers]{value: watchers{}},
		permits: make(chan struct{}, pending), turn: make(chan struct{}, 1),
		up: make(chan struct{}), done: make(chan struct{}), onJoined: onJoined,
	}
}

// admit waits for room for n triggers. release gives it back.
func (s *podStatus) admit(ctx context.Context, n int) (release func(), err error) {
	taken := 0
	release = func() {
		for range taken {
			<-s.permits
		}
	}
	if err := s.enter(ctx, s.turn); err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	for taken < min(n, cap(s.permits)) {
		if err := s.enter(ctx, s.permits); err != nil {
			release()
			return nil, err
		}
		taken++
	}
	return release, nil
}

func (s *podStatus) enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return ErrEnded
	}
}

// sawDatabaseTime notes what the database's clock said at an instant of the pod.
func (f *podFacts) sawDatabaseTime(database, local time.Time) {
	if !database.IsZero() {
		f.offset = database.Sub(local)
	}
}

// Why a database takes no writes, with the remedy.
const (
	diskFull = "the database's disk is full, or takes no more for another cause, which the log names: make room; rejected writes are tried again until then"
	readOnly = "the database takes no writes (default_transaction_read_only, which providers turn on when a disk is nearly full, or a standby):" +
		" make it writable; rejected writes are tried again until then"
	noResources = "the server lacks memory, locks, connections or temporary files (class 53, see the log): look for sessions that hold many of them" +
		" (max_locks_per_transaction, max_connections, temp_file_limit); rejected writes are tried again until then"
)

// reportedDead notes that a call through the pool was rejected because the pod is dead.
func (f *podFacts) reportedDead(now time.Time) {
	if f.deadSince.IsZero() {
		f.deadSince = now
	}
	f.deadLast = now
}

// reportedAlive notes that a call was accepted, or that the lease is new.
func (f *podFacts) reportedAlive() { f.deadSince, f.deadLast = time.Time{}, time.Time{} }

// parted reports whether the pool has kept reporting the pod dead while its lease was
// renewed: they lead to different databases.
func (f *podFacts) parted() bool {
	return f.lease == lifecycle.LeaseLive && f.deadLast.Sub(f.deadSince) >= leadAwayMax
}

func (f *podFacts) turnLease(state lifecycle.LeaseState) {
	if f.lease != lifecycle.LeaseLive {
		f.reportedAlive()
	}
	f.lease = state
}

// leaderless returns how long the pod has heard of no leader.
func (f *podFacts) leaderless(now time.Time) time.Duration {
	if f.epoch != 0 || f.led.IsZero() {
		return 0
	}
	return now.Sub(f.led)
}

func (s *podStatus) joined(number int64) {
	s.with(func(f *podFacts) {
		f.number, f.lease = number, lifecycle.LeaseLive
		if s.onJoined != nil {
			s.onJoined(number)
		}
	})
}

// begin closes up, once.
func (s *podStatus) begin() {
	s.with(func(f *podFacts) {
		if !f.running {
			f.running = true
			close(s.up)
		}
	})
}

// end closes done, once.
func (s *podStatus) end(err error) {
	s.with(func(f *podFacts) {
		if !f.ended {
			f.ended, f.err = true, err
			close(s.done)
		}
	})
}

// watch returns a channel that holds a token after every hint about a run.
func (s *podStatus) watch(run workflow.RunID) (hints <-chan struct{}, stop func()) {
	w := &watcher{hints: make(chan struct{}, 1)}
	s.waiting.with(func(all *watchers) {
		if (*all)[run] == nil {
			(*all)[run] = map[*watcher]struct{}{}
		}
		(*all)[run][w] = struct{}{}
	})
	return w.hints, func() {
		s.waiting.with(func(all *watchers) {
			delete((*all)[run], w)
			if len((*all)[run]) == 0 {
				delete(*all, run)
			}
		})
	}
}

func (s *podStatus) hint(run workflow.RunID) {
	s.waiting.with(func(all *watchers) {
		for w := range (*all)[run] {
			select {
			case w.hints <- struct{}{}:
			default:
			}
		}
	})
}

// watched returns the runs that callers wait for, in no order.
func (s *podStatus) watched() (runs []workflow.RunID) {
	s.waiting.with(func(all *watchers) { runs = slices.Collect(maps.Keys(*all)) })
	return runs
}

// recordOf returns a record of this pod without transitions.
func (rt *runtime) recordOf(pod int64) persistence.Record {
	return persistence.Record{
		GrantRequest: persistence.GrantRequest{Pod: pod, TenantLimit: rt.config.TenantLimit}, MaxLost: rt.config.MaxLost, CancelGrace: rt.config.CancelGrace,
	}
}

// submits reports whether the embedder stored a run in a transaction of its own recently.
func (rt *runtime) submits() bool {
	at := rt.status.get().submittedAt
	return !at.IsZero() && rt.now().Sub(at) < rt.config.StreamSpare
}

// databaseTime returns what the database's clock says now, as far as is known.
func (rt *runtime) databaseTime() time.Time { return rt.now().Add(rt.status.get().offset) }

// ErrEnded is returned by calls to a pod that has ended. Whether they took effect is
// unknown.
var ErrEnded = errors.New("the pod has ended")
