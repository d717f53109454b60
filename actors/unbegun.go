package actors

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// unbegunMax is how many transactions of steps in a row cannot be begun before
	// the pod leaves such steps to others.
	unbegunMax = 3
	// unbegunPause is for how long it does.
	unbegunPause = 10 * time.Second
)

// unbegun is whether transactions of steps can be begun: that is a matter of the
// embedder's pool, which may be silent or closed while the engine's own
// connections are well. It is safe for concurrent use.
type unbegun struct {
	mu    sync.Mutex
	open  int // transactions under way
	times int // in a row
	err   error
	last  time.Time
	until time.Time // until when such steps are left to others
}

// note adds one that could not be begun. It counts for nothing while others are
// under way, or if the database is away, which is nobody else's gain either.
func (u *unbegun) note(now, away time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open > 0 || now.Sub(away) < unbegunPause {
		u.times = 0
		return
	}
	u.times++
	u.last, u.err = now, err
	if u.times >= unbegunMax {
		u.until = now.Add(unbegunPause)
	}
}

// begun notes that one has been begun; ended, that it is over.
func (u *unbegun) begun() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open++
	u.times, u.until = 0, time.Time{}
}

func (u *unbegun) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open--
}

// wait is for how long steps with a transaction are left to others.
func (u *unbegun) wait(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(u.until.Sub(now), 0)
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
	return fmt.Sprintf("no step with InTx can begin its transaction, and such steps are left to other pods: %v; look at the pool that was given to the engine, "+
		"which is to be closed after Engine.Stop and not before", u.err)
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
