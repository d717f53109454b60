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
	// refusedMax is for how long the database may refuse a kind of call before the
	// pod says so.
	refusedMax = 10 * time.Second
	// refusedMemory is how long a refusal counts: kinds of calls that are not made
	// any more are forgotten. Work of a leader's has its own times.
	refusedMemory = 2 * time.Minute
	// vitalMemory is the same for calls that are made again at once: when nobody
	// asks for what was refused any more, nobody would find out that it is mended.
	vitalMemory = 8 * time.Second
	// seldomMemory is the same for calls between which minutes pass.
	seldomMemory = 2 * dropEvery
)

func memoryOf(name string) time.Duration {
	switch {
	case slices.Contains(vital(), name):
		return vitalMemory
	case slices.Contains(seldom(), name):
		return seldomMemory
	}
	return refusedMemory
}

// seldom are the calls of which the next one comes after minutes.
func seldom() []string { return []string{"rotate_events", "drop_history", "purge_dead_letters"} }

// vital are the calls without which a pod does no work.
func vital() []string { return []string{"claim_tasks", "record_transitions", "trigger_runs"} }

// refusals are the kinds of calls that the database answers, and refuses each
// time. It is safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	calls map[string]*refusedCall
}

type refusedCall struct {
	since, last time.Time
	memory      time.Duration
	err         error
}

func newRefusals() *refusals { return &refusals{calls: map[string]*refusedCall{}} }

// leaders are the calls that a pod makes while it leads.
func leaders() []string {
	return []string{
		"fire_timers", "expire_pods", "park_tasks", "rotate_events", "archive_runs", "drop_history", "purge_dead_letters",
	}
}

// forget drops what is known of calls that are not made any more.
func (r *refusals) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		delete(r.calls, name)
	}
}

// note adds the end of a call. One that was not answered says nothing, and an
// answer about what was asked for, and not about the call, is none.
// took is how long the call took: the next one may take as long to be refused.
func (r *refusals) note(name string, now time.Time, took time.Duration, err error) {
	if name == "probe" || name == "payload" || !persistence.Answered(err) || errors.Is(err, persistence.ErrBadRow) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	memory := max(memoryOf(name), 2*took)
	switch call := r.calls[name]; {
	case err == nil, errors.Is(err, persistence.ErrPodDead), errors.Is(err, persistence.ErrDeposed), errors.Is(err, persistence.ErrRunNotFound):
		delete(r.calls, name)
	case call == nil || now.Sub(call.last) >= max(call.memory, memory):
		r.calls[name] = &refusedCall{since: now, last: now, memory: memory, err: err}
	default:
		call.last, call.memory, call.err = now, memory, err
	}
}

// worst describes the call that has been refused for longest, of those without
// which no work is done if there is one, and whether it is one of these and not
// just a lock that it waits for; "": none has for long.
func (r *refusals) worst(now time.Time) (why string, idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var worst *refusedCall
	var name string
	for n, call := range r.calls {
		long := call.last.Sub(call.since) >= refusedMax || slices.Contains(seldom(), n) && !errors.Is(call.err, persistence.ErrConflict)
		if !long || now.Sub(call.last) >= call.memory {
			continue
		}
		stops := slices.Contains(vital(), n) && !errors.Is(call.err, persistence.ErrConflict)
		if worst == nil || stops && !idle || stops == idle && call.since.Before(worst.since) {
			worst, name, idle = call, n, stops
		}
	}
	if worst == nil {
		return "", false
	}
	lasts := "refused " + name
	if took := worst.last.Sub(worst.since).Truncate(time.Second); took > 0 {
		lasts = fmt.Sprintf("refused each %s for %v", name, took)
	}
	return fmt.Sprintf("the database has %s; it is made again until that is mended, and the log has all of it: %.300s", lasts, persistence.Shown(worst.err)), idle
}
