package vitals

import "time"

// LongSilence is the shortest silence that excuses a step which waited for the database.
const LongSilence = time.Second

// Responsiveness tracks whether the database answers the calls that a pod makes through
// its pool: claims, records, triggers, and a leader's work. The lease and the leader's
// session have connections of their own and do not count.
type Responsiveness struct {
	calls        map[int64]call       // in flight, by number
	unanswered   map[string]time.Time // start of the first call of a kind since its last answer
	silentSince  time.Time            // start of the first call since the last answer; zero: none
	lastAnswer   time.Time
	silenceEnded time.Time // end of the last long silence; zero: there was none
}

type call struct {
	kind  string
	begun time.Time
}

// NewResponsiveness returns that of a pod that has just heard from the database.
func NewResponsiveness(now time.Time) Responsiveness {
	return Responsiveness{calls: map[int64]call{}, unanswered: map[string]time.Time{}, lastAnswer: now}
}

// Asked notes the start of a call.
func (r *Responsiveness) Asked(number int64, kind string, now time.Time) {
	r.calls[number] = call{kind: kind, begun: now}
	if r.silentSince.IsZero() {
		r.silentSince = now
	}
	if r.unanswered[kind].IsZero() {
		r.unanswered[kind] = now
	}
}

// Ended notes the end of a call, once. A refusal is an answer. A call without an answer
// is made again, so it does not end the silence.
func (r *Responsiveness) Ended(number int64, now time.Time, answered bool) {
	call, open := r.calls[number]
	delete(r.calls, number)
	if !open || !answered {
		return
	}
	delete(r.unanswered, call.kind)
	if !r.silentSince.IsZero() && now.Sub(r.silentSince) >= LongSilence {
		r.silenceEnded = now
	}
	r.lastAnswer, r.silentSince = now, time.Time{}
	if len(r.calls) > 0 {
		r.silentSince = now
	}
}

// Silence returns how long calls have been waiting without any answer.
func (r *Responsiveness) Silence(now time.Time) time.Duration { return elapsed(r.silentSince, now) }

// SilenceOf returns the longest silence about calls of the given kinds. Other calls of
// the pod may be answered meanwhile, for example because their answers are shorter.
func (r *Responsiveness) SilenceOf(now time.Time, kinds ...string) (longest time.Duration) {
	for _, kind := range kinds {
		longest = max(longest, elapsed(r.unanswered[kind], now))
	}
	return longest
}

// Forget drops the silence about kinds of calls that the pod no longer makes.
func (r *Responsiveness) Forget(kinds ...string) {
	for _, kind := range kinds {
		delete(r.unanswered, kind)
	}
}

// Oldest returns the age of the oldest call in flight; 0 if there is none.
func (r *Responsiveness) Oldest(now time.Time) (oldest time.Duration) {
	for _, call := range r.calls {
		oldest = max(oldest, now.Sub(call.begun))
	}
	return oldest
}

// LastAnswer returns when the database last answered.
func (r *Responsiveness) LastAnswer() time.Time { return r.lastAnswer }

func elapsed(since, now time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}
