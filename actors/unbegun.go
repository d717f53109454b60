package actors

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

const (
	// unbegunMax is how many transactions of steps in a row cannot be begun before
	// the pod leaves such steps to others.
	unbegunMax = 3
	// unbegunPause is for how long it does.
	unbegunPause = 10 * time.Second
	// unbegunGrace is for how long those count for nothing that fail beside other calls:
	// the connections that a restart of the server has ended are used up by then.
	unbegunGrace = 3 * time.Second
	// unbegunPatience is how long one waits before no more of them are claimed beside it.
	unbegunPatience = time.Second
)

// unbegun is whether transactions of steps can be begun: that is a matter of the
// embedder's pool, which may be silent or closed while the engine's own
// connections are well. It is safe for concurrent use.
type unbegun struct {
	mu     sync.Mutex
	asking []*time.Time // since when each waits for its transaction to begin
	first  time.Time    // of those in a row
	times  int          // in a row, that count
	err    error
	last   time.Time
	until  time.Time // until when such steps are left to others
}

// outage is what is known of times at which the database did not answer.
type outage struct {
	missed time.Time // when a call failed without an answer, or could not be made, last
	silent bool      // nothing has been answered for a while
	ended  time.Time // when that was so last
}

// outage returns what is known by now.
func (rt *runtime) outage() outage {
	return outage{missed: rt.boundary.lastAway(), silent: rt.reach.silence(rt.now()) >= excuse, ended: rt.reach.quietUntil()}
}

// note adds one that could not be begun, which has waited for that since an instant. One
// that has waited for long says as much as several. It counts for nothing if the database
// is away, which is nobody else's gain either, or was a moment ago. A server that has no
// connection to give is not away.
func (u *unbegun) note(since, now time.Time, o outage, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first.IsZero() || u.first.Before(o.ended) {
		u.first = now
	}
	if fresh := now.Sub(o.missed) < unbegunPause && now.Sub(u.first) < unbegunGrace; (o.silent || fresh) && !errors.Is(err, persistence.ErrNoResources) {
		return
	}
	u.times++
	if now.Sub(since) >= unbegunPatience {
		u.times = max(u.times, unbegunMax)
	}
	u.last, u.err = now, err
	if u.times >= unbegunMax {
		u.until = now.Add(unbegunPause)
	}
}

// asks notes that one waits to be begun, until it is told that it does not any more.
func (u *unbegun) asks(now time.Time) (answered func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := &now
	u.asking = append(u.asking, since)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.asking = slices.DeleteFunc(u.asking, func(other *time.Time) bool { return other == since })
	}
}

// begun notes that one has been begun; ended, that it is over, so that there is a
// connection again.
func (u *unbegun) begun() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.times, u.first, u.until = 0, time.Time{}, time.Time{}
}

func (u *unbegun) ended() { u.begun() }

// wait is for how long steps with a transaction are left to others. While one has waited
// for a while to be begun, more of them would wait beside it, each in a slot.
func (u *unbegun) wait(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	wait := max(u.until.Sub(now), 0)
	if slices.ContainsFunc(u.asking, func(since *time.Time) bool { return now.Sub(*since) >= unbegunPatience }) {
		wait = max(wait, unbegunPatience)
	}
	return wait
}

// unbegunMemory is for how long it is said: others may have taken all such steps.
const unbegunMemory = time.Minute

// trouble describes it, until one has been begun or nobody has tried for a while;
// "": there is none.
func (u *unbegun) trouble(now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.times < unbegunMax || now.Sub(u.last) >= unbegunMemory {
		return ""
	}
	remedy := "look at the pool that was given to the engine, which is to be closed after Engine.Stop and not before"
	if errors.Is(u.err, persistence.ErrNoResources) {
		remedy = "the server has too few connections for all pods and their steps: raise max_connections (a restart), or the limit of the role or the database"
	}
	return fmt.Sprintf("no further step with InTx can begin its transaction, and such steps are left to other pods: %s; %s", persistence.Shown(u.err), remedy)
}

// claimable returns the handlers whose steps the pod can execute now, ascending.
func (rt *runtime) claimable() []int32 {
	if rt.unbegun.wait(rt.now()) > 0 {
		return rt.plain
	}
	return rt.handlers
}

// numberHandlers sorts the numbers of the functions.
func (rt *runtime) numberHandlers() {
	for number := range rt.functions {
		rt.handlers = append(rt.handlers, number)
		if !rt.functions[number].Options.InTx {
			rt.plain = append(rt.plain, number)
		}
	}
	slices.Sort(rt.handlers)
	slices.Sort(rt.plain)
}
