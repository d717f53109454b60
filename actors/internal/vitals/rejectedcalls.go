package vitals

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

const (
	// RejectedMax is how long the database may reject a kind of call before the pod
	// reports it.
	RejectedMax = 10 * time.Second
	// rejectedMemory is how long a rejection counts. Kinds of calls that are no longer
	// made are forgotten.
	rejectedMemory = 2 * time.Minute
	// EssentialMemory is the same for essential calls, which are made again at once. A
	// pod that is not ready gets no calls, so it must forget rejections to recover.
	EssentialMemory = 8 * time.Second
	// infrequentMemory is the same for infrequent calls.
	infrequentMemory = 10 * time.Minute
)

// Infrequent returns the calls that are made minutes apart.
func Infrequent() []string { return []string{"rotate_events", "drop_history", "purge_dead_letters"} }

// Essential returns the calls without which a pod does no work.
func Essential() []string { return []string{"claim_tasks", "record_transitions", "trigger_runs"} }

// RejectedCalls are the kinds of calls that the database answers with an error each
// time.
type RejectedCalls map[string]rejected

type rejected struct {
	since, last time.Time
	memory      time.Duration
	err         error
}

// Forget drops kinds of calls that the pod no longer makes.
func (r RejectedCalls) Forget(kinds ...string) {
	for _, kind := range kinds {
		delete(r, kind)
	}
}

// Note adds the end of a call that took a while; the next one may take as long. A call
// without an answer says nothing. A bad value in a request says nothing about its kind.
func (r *RejectedCalls) Note(kind string, now time.Time, took time.Duration, err error) {
	if slices.Contains([]string{"probe", "echo", "payload"}, kind) || !persistence.Answered(err) || errors.Is(err, persistence.ErrBadRow) {
		return
	}
	if *r == nil {
		*r = RejectedCalls{}
	}
	memory := rejectedMemory
	switch {
	case slices.Contains(Essential(), kind):
		memory = EssentialMemory
	case slices.Contains(Infrequent(), kind):
		memory = infrequentMemory
	}
	memory = max(memory, 2*took)
	call, known := (*r)[kind]
	switch {
	case err == nil, errors.Is(err, persistence.ErrPodDead), errors.Is(err, persistence.ErrDeposed), errors.Is(err, persistence.ErrRunNotFound):
		delete(*r, kind)
		return
	case !known || now.Sub(call.last) >= max(call.memory, memory):
		call.since = now
	}
	call.last, call.memory, call.err = now, memory, err
	(*r)[kind] = call
}

// LongestRejected describes the call rejected for longest, essential calls first, and
// reports whether it stops all work. A wait for a lock does not. "" if none was rejected
// for long.
func (r RejectedCalls) LongestRejected(now time.Time) (why string, stopped bool) {
	var longest rejected
	var kind string
	for k, call := range r {
		conflict := errors.Is(call.err, persistence.ErrConflict)
		long := call.last.Sub(call.since) >= RejectedMax || slices.Contains(Infrequent(), k) && !conflict
		if !long || now.Sub(call.last) >= call.memory {
			continue
		}
		stops := slices.Contains(Essential(), k) && !conflict
		if kind == "" || stops && !stopped || stops == stopped && call.since.Before(longest.since) {
			longest, kind, stopped = call, k, stops
		}
	}
	if kind == "" {
		return "", false
	}
	lasts := "refused " + kind
	if took := longest.last.Sub(longest.since).Truncate(time.Second); took > 0 {
		lasts = fmt.Sprintf("refused each %s for %v", kind, took)
	}
	return fmt.Sprintf("the database has %s; it is made again until that is mended, and the log has all of it: %.300s", lasts, persistence.Shown(longest.err)), stopped
}
